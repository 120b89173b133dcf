"""Slash commands: their syntax, and the texts that they show."""
