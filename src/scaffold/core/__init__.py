"""Shared vocabulary: values, states, events, errors and ports.

Pure: imports only msgspec, and nothing of ours. Every other package takes and returns these values; what has a clock, a
disk or a model is a Protocol in `ports.py`, which a caller implements. Start with `states.py` (what a run, a goal, an
action and an attempt can be), then `model.py` (what is stored of each).
"""
