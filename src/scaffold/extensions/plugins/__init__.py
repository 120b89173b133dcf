"""Plugins: a user's own programs that take part in an agent's turns, and offer it tools."""
