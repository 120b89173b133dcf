"""Learnings, vectors and documents. Empty until the agent remembers (AL-16, RA-6 to RA-9)."""
