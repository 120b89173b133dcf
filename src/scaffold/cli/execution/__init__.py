"""How a command follows a run: in the foreground, in the background, after an interrupt."""
