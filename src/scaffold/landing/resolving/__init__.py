"""Helpers for conflicts that take time: a merge agent, and the tools that regenerate lock files."""
