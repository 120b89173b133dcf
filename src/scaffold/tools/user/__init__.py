"""A user's own tool files."""
