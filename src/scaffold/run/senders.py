"""Who sends messages to the agents of a run; no agent has one of these names."""

HUMAN = "human"
"""The user, whose messages are orders to the agent."""
MERGE_QUEUE = "merge queue"
"""The owner, whose messages are facts about what has landed."""
