"""Judging an attempt's work: the critic and its scores, what is learned from a failure, reviews and audits."""
