"""The plugins of a session of `ralph`."""
