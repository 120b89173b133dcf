"""Who sends messages to the agents of a run; no agent has one of these names."""

HUMAN = "human"
"""The user: what the agent is told is an order."""
MERGE_QUEUE = "merge queue"
"""The owner, about what has landed: what the agent is told is a fact."""
