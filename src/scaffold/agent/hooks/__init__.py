"""The hooks of an agent."""
