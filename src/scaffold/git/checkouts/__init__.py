"""Worktrees and their submodules: create, reset, reuse and remove the checkouts that attempts work in."""
