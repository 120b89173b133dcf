"""The merge queue: integrate, verify again on the very tree, move the branch, record."""
