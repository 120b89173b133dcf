"""`ralph`: one task on the command line, a slash command, or the conversation on a terminal."""
