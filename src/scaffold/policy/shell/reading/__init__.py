"""Recognise commands that only read, and what they read."""
