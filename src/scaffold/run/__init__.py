"""What a run's processes share: attempts, landing and the run's owner build on it.

Enters: a repository and its opened store (`context.py`, which also names all folders of a run). Leaves: how attempts
begin and end (`attempts/`, `failures/`), what they work with (`resources/`), what is remembered of them (`learning/`),
gates tried once (`trial/`), notices and notes for people. Start with `context.py`, then `attempts/assignment.py`.
"""
