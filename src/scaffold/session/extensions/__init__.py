"""The hooks, skills, roles and commands of a session of `ralph`."""
