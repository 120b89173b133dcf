"""Proof: contracts run on the very tree they judge."""
