"""Scaffold as a server of the Model Context Protocol: other programs see, start and steer runs.

Calls of a client enter, JSON leaves; `run_queries.py` reads the store, `run_control.py` answers and sends messages;
this program's own commands start and end runs. Nothing changes without consent (`consent.py`), and approvals are given
at a terminal only. Start with `server.py`, which answers requests, and `tools.py`, which lists the tools; `serve.py`
owns the transports.
"""
