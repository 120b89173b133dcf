"""What the processes of a run have in common when the machine fails."""

FAULT_EXIT_CODE = 4
"""The machine failed: git, the database or the file system, which says nothing about the work."""
DATABASE_OUTAGE_S = 600.0
"""How long a worker or supervisor waits for a database server that is away, before it ends with that code."""
