"""The hooks, skills and roles of a worker."""
