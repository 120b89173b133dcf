"""Learnings: their text, what they fit, what their use shows, and which of them a prompt has room for."""
