"""Recover a run whose owner died: its attempts, its leftover files, and its progress."""
