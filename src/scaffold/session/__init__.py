"""A session of ralph: its conversation, tools, sandbox, subagents and output, for any face."""
