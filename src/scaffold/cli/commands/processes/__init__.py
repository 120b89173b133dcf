"""Hidden commands: the entry points of the processes of a run."""
