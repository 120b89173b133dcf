"""The merge queue: integrate, verify the merged tree, move the branch, record."""
