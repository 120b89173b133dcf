"""Decide which tool calls are allowed, denied or need approval."""
