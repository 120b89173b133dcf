"""The MCP servers of a session of ralph."""
