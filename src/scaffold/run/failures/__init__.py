"""Failures of attempts in the store: their fingerprints, what follows from them, and attempts that take long."""
