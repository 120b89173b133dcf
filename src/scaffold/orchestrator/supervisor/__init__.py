"""The supervisor of a goal: its loop, its view of the store, and the process that it shares with others."""
