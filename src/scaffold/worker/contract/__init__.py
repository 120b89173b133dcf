"""Contracts written by a model: drafted before the work, strengthened after it."""
