"""Text and JSON about changes: the review of a run, one that waits for approval, pull requests, second reviewers."""
