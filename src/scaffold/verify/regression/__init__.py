"""Compare gate runs with their baseline, test by test."""
