"""Tools that run commands: shell, python, packages, and the user's own tool files."""
