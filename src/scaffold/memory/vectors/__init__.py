"""Search by vector: exact, and by an index file that can be deleted at any time. Needs the extra `memory`."""
