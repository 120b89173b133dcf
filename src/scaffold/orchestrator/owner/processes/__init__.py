"""Starts the workers and supervisors of a run, and handles their exits and crashes."""
