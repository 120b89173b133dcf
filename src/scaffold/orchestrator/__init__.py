"""Executes runs: it plans them, supervises their goals, starts their workers, and has their work landed.

Owns the lease of a run and all processes of it. In come a run from the store and control requests of the user; out go
attempts for `worker`, candidates for `landing`, and the final state of the run.

Start with `owner/run_loop.py`, the tasks of a running run; then `supervisor/goal_loop.py`, which decides for one goal,
and `dispatch.py`, which queues an attempt. What users do to a run from any process is in `user_control/`.
"""
