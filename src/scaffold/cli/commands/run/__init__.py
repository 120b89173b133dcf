"""Commands that start, follow and control a run."""
