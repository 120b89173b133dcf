"""The commands `scaffold` and `ralph`: parse, wire, draw, and turn errors into exit codes."""
