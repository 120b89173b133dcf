"""Scripted replies in place of a live model."""
