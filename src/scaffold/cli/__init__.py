"""The command line: `scaffold` and `ralph`.

Words and files of the user enter; runs and sessions are started through `orchestrator` and `session`; text, JSON and
exit codes leave. `entry.py` lists all commands, `main.py` runs one and turns errors into two lines and an exit code.
`commands/` parses and prints, `execution/` follows a run, `render/` draws without asking, `repl/` is the conversation.
Start with `entry.py`, then the module of the command you are looking for.
"""
