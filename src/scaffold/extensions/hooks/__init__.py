"""Hooks: commands in the form of Claude Code that run at events of an agent, and may block them."""
