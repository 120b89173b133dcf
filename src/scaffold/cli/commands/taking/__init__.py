"""Commands that take the work of a run, or undo it."""
