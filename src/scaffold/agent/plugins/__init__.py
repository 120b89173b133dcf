"""The user's plugins around an agent: its tools, its model, and what the user says."""
