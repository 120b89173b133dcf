"""Conditions for landing, and the results of checks, gates, reviewers and audits."""
