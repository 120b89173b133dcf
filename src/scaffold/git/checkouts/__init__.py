"""Checkouts."""
