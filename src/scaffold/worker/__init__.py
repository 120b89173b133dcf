"""One attempt at an action: from its worktree to a verified candidate, run by a process of its own.

Enters: an attempt in the store, queued by the run's owner. Leaves: a candidate for the merge queue, or the reason why
there is none, and every change pinned by a ref. Start with `attempt.py`; `change_loop.py` changes files,
`step_loop.py` works a step of a story, `review/review_loop.py` reviews. An attempt is three values: where it works
(`workspace/workplace.py`), what its agent may use (`agent/capabilities.py`), where it records (`attempt_records.py`).
"""
