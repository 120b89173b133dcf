"""Indexes that agents make: collections of texts, or of vectors that the agent computes."""
