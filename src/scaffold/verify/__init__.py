"""Verification: contracts and gates run on the exact tree that they judge."""
