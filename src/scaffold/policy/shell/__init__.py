"""Decide shell commands: parse them, find what they would run, read and write, and apply the rules."""
