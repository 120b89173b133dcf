"""Parse shell commands: two parsers that must agree, and the unquoting that they share."""
