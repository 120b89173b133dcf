"""A user's first hour on real projects, recorded: at a terminal of 80 and of 200 columns, and in a pipe."""
