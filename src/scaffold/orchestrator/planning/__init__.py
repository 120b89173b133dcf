"""The agents that plan: their turns, tools and prompts, and how their proposals are checked and stored."""
