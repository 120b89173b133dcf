"""Texts split into chunks."""
