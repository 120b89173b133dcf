"""Runs, supervisors, scheduling, the engine and recovery."""
