"""Start, follow and control a run."""
