"""Resolve what git's merge leaves in conflict, without a model."""
