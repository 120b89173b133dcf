"""The schema of settings: their table, their parsers, and the rules for values in a repository's files."""
