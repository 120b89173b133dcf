"""Merges what git leaves in conflict, by language and file format, and certifies each result; mostly pure."""
