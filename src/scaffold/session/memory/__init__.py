"""Memories in a session: the agent's tools, what goes with each message, and the user's commands."""
