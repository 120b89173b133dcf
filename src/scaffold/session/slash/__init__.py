"""Slash."""
