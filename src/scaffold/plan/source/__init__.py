"""Plans from other inputs: task lists, PRDs, a single request."""
