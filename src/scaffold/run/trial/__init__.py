"""Try each gate once, to know before a run whether it can judge work on this machine."""
