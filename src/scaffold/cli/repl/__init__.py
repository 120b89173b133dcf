"""The REPL: a conversation with one agent at a terminal."""
