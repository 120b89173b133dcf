"""Base versions."""
