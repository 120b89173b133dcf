"""Lands work: it merges candidates, proves the merged tree, moves the session branch, and records the facts.

In come candidates, which are attempts that wait to land; out go commits on the session branch with evidence, or a
refusal for the next attempt. Later the user takes the work to the base branch or a pull request.

Start with `queue/merge_queue.py`, one step of the queue; then `integration.py`, which makes the commit that would land,
`proving/candidate_check.py`, which proves it, and `facts/landing_record.py`, which records it.
"""
