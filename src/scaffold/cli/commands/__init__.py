"""The commands, by subject: each parses its arguments, wires what it needs, and prints text or JSON."""
