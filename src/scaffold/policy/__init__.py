"""Decide what agents may do: paths, tool calls, secrets, sandbox profiles. Decisions are pure functions."""
