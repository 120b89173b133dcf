"""Embedders: what turns text into vectors. Needs the extra `memory`."""
