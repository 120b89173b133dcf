"""Subagents: the pool, their tools, approvals passed up to the parent."""
