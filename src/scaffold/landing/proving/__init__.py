"""Proves candidates in clean checkouts: alone, as a batch, and the facts of others that they affect."""
