"""The run's owner: start, lease, engine, worker exits, recovery and end."""
