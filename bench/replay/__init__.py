"""Work of others, replayed with the real command: commits of public projects, and patches with a recorded verdict."""
