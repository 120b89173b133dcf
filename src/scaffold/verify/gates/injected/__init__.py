"""Code that runs inside test runners, on the project's Python (3.8 or newer): standard library only, no `scaffold`.

This folder is on PYTHONPATH during a run, so its modules are imported by their file names.
"""
