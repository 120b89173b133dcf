"""Messages between sessions: each is delivered once, and survives a crash of its reader."""
