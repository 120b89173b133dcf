"""What is watched during a run: models, the machine, faults of tasks, and what its user wants to be told."""
