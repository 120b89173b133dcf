"""Classify changed paths: declared files, check inputs, shadowed modules."""
