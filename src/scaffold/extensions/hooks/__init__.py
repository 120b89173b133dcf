"""Hooks: commands that people run at events of an agent."""
