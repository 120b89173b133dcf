"""The hooks, plugins and MCP servers of an agent, behind one port; none is loaded before it is needed."""
