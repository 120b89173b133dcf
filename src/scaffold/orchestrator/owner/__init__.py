"""The process that owns a run: its lease, baseline, main loop, processes, recovery and end."""
