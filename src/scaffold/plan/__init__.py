"""Planning as pure functions: from plan files and task lists to findings, drafts, decisions and simulations.

Values in, values out: no clock, disk or model; callers read the store and execute what is returned. Start with
`decide.py` (what a supervisor does next), `analysis/lint.py` (the proof that a plan reaches its goals) and
`edit/draft.py` (what an agent may change). `source/` and `text/` read what people write; `story/`, `compliance/`,
`collisions/`, `failures/` and `learning/` each decide one thing.
"""
