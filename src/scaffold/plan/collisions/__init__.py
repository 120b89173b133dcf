"""Which actions may not run at the same time, because they would change the same files."""
