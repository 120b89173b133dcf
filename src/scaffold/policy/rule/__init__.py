"""The user's rules for tool calls, and the hosts that no rule allows."""
