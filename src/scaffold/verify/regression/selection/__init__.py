"""Select the tests that a change affects, by names, packages, tags and callers."""
