"""Sandboxes: what a command may reach, and the mechanism of each system that enforces it."""
