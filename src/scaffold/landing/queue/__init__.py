"""The merge queue of a run: which candidate is next, human approval, the move of the branch, its notices."""
