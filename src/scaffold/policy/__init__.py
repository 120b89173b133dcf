"""What agents may touch: pure decisions about paths and tool calls."""
