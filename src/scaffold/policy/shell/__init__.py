"""What a shell command would run, read and write, and whether it may: pure decisions about understood commands."""
