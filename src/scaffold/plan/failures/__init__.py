"""Failures of attempts: when two are the same, what follows from one, and what a human may answer about it."""
