"""Code that runs inside the Python processes of a check: standard library only, no `scaffold`.

This folder is on PYTHONPATH while a check runs, so its modules are imported by their file names.
"""
