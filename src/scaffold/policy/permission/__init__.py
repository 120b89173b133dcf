"""Decide whether tool calls are allowed, denied or need approval, and ask for it."""
