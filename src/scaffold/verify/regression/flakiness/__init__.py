"""Flakiness."""
