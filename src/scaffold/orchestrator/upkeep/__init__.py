"""Work outside of runs: cleanup, salvage of unlanded work, expired files, and the removal of all state."""
