"""What moves branches, and what becomes of files that both sides of a merge changed."""
