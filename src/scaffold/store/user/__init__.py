"""The aggregates of the user's database: conversations, subagents, trust, throttles."""
