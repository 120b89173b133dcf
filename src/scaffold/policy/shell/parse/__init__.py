"""Parse shell commands: two parsers that must agree, and what they share."""
