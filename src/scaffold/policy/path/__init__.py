"""Globs, protected files and areas, and path containment."""
