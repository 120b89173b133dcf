"""Tools that run commands: shell, python, packages."""
