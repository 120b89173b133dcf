"""Paths of a workspace: globs, containment, protected files and areas, the paths that a patch names."""
