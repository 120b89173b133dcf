"""Read models of runs for every interface: values, plain text and JSON, without terminal drawing.

In: the store, and git for the work that was taken. Out: frozen views, which commands, the report, the REPL and the
servers for other programs render. Start with `run_view.py`: a run at one moment; its JSON is in `run_json.py`.
"""
