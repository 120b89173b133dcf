"""Merge and write trees without a work tree; follow links within a tree."""
