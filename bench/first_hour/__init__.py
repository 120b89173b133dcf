"""A user's first hour on real projects, recorded: at terminals of three widths, and in a pipe."""
