"""One attempt: workspace, execution, verification, candidate."""
