"""Ralph: one agent's conversation with a model and its tools."""
