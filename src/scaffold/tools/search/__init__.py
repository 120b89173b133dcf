"""The tools that find files and lines in them, and the process that searches where a pattern may take long."""
