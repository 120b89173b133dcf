"""`plan`: turn a task into a plan file; check, compare, explain and simulate plans."""
