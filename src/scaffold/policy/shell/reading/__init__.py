"""Recognise commands that only read, and find what they read."""
