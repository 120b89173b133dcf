"""Parse shell commands, find what they would run, read and write, and decide whether they may run."""
