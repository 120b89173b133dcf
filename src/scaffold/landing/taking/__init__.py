"""Taking the work of a run: to its base branch, to a pull request, or back."""
