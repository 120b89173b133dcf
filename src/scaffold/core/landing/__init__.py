"""Moves of branches, the order of landings, and files that both sides of a merge changed."""
