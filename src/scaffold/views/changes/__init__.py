"""Changes of a run's work: reviewed, waiting for approval, landed on the session branch, taken by the user."""
