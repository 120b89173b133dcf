"""Start processes and end them with all that they started, however we end ourselves."""
