"""The tool that searches files, and the process it searches in."""
