"""The loop of a goal's supervisor and its process."""
