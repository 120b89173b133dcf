"""Subagents: processes of their own that do a task for an agent, and ask its session for approvals."""
