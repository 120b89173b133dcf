"""Vectors: exact search, and an index that can be deleted at any time. Needs the extra `memory`."""
