"""The REPL: a conversation with one agent at a terminal; `loop.py` reads events, `view.py` says what is shown."""
