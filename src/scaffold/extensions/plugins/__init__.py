"""Plugins: programs of the user that take part in each turn, by JSON-RPC lines."""
