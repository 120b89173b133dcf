"""The agent: a turn loop between one model and its tools, and everything around it.

Owns turns, context and its compaction, subagents, messages between sessions, and the one port for extensions. A model
(`core.ports.Model`) and tools enter; replies, journal entries and usage leave. It knows neither a run nor a screen.
Start with `turn_loop.py`, then `toolbox.py`; `extensions/port.py` is how hooks, plugins and MCP servers take part.
"""
