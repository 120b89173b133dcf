"""What users do to a run from any process: open, stop, retry, answer, send a message, revert, rebase."""
