"""Live output: events, rows of agents, the live screen of a run, the line about current work."""
