"""The tools of MCP servers, for an agent that has some."""
