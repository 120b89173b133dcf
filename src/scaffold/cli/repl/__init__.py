"""The REPL: talking with one agent at a terminal."""
