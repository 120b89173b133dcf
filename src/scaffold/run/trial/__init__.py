"""Tries the gates of a repository once, outside of any run, for `init` and `doctor`."""
