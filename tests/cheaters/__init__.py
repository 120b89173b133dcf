"""Cheating and honest workers: the same small task, the real command, and an independent oracle."""
