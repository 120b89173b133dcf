"""MCP servers, plugins, hooks and skills. Empty until they are built (RA-15, RA-16)."""
