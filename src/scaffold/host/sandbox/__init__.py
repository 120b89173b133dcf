"""Sandboxes: what a command may reach, and how the system is made to hold it to that."""
