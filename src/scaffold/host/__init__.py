"""The machine: processes, sandboxes, files, locks, identity and time.

The only package that starts processes or reads the clock. Commands and confinements enter as values; results leave as
values, and OSError only where a caller can do something about it. `process/` runs commands and leaves none behind,
`sandbox/` limits what they reach. Scripts that run beside or inside a command import nothing else of ours.

Start with `process/command_runner.py` and `sandbox/level.py`.
"""
