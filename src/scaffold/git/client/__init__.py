"""Run one git command: safe settings, retries, errors, cached answers about commits."""
