"""Search of memories: sets of questions, and the rows of the bench."""
