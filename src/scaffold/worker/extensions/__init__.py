"""The hooks, plugins and MCP servers that an attempt's agent works with."""
