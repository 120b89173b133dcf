"""What is shown while something lasts: events, rows of agents, the live screen of a run, one line of work."""
