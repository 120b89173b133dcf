"""The client of the Model Context Protocol: server processes and addresses, their tools, one pool for many agents."""
