"""User control."""
