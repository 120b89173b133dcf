"""What people add to agents: hooks, plugins, MCP servers, and Markdown files of skills, roles and commands.

Starts their programs, speaks their protocols, and bounds whatever they send; nothing that they say permits anything.
Files and settings enter; tools, answers and lines for the user leave. `agent/extensions/` connects them to an agent.
Start with `hooks/event_runner.py`, `plugins/plugin.py` or `mcp/pooled_server.py`.
"""
