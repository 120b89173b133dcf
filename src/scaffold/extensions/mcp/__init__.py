"""Servers of the Model Context Protocol (MCP): their processes, their tools, and one pool of them for many agents."""
