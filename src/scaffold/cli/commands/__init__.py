"""One module per command: parse the arguments, wire, print."""
