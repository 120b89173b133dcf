"""Watches models, machine and faults during a run, and notifies its user."""
