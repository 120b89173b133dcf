"""Takes the work of a run to its base branch or a pull request, undoes it, or carries it to a new base."""
