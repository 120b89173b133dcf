"""Verification: run contracts and gates on the exact tree that they judge.

Owns the environment of checks, the checks of a contract, gates and their baseline, and what a change must not touch.
Takes a checkout, its base, a contract and the baseline; returns a verification with each check's result, its doubts
and its warnings, never a claim of an agent. It runs commands in the sandbox, and stores nothing.

Start with `proof.py`, the whole proof of a candidate, then `guard.py`, `contract/check_runs.py` and
`regression/gate_results.py`.
"""
