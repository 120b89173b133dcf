"""How a command executes a run: in the foreground, in the background, after an interrupt."""
