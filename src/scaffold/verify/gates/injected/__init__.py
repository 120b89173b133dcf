"""Code that runs inside test runners, on the project's Python (3.6 or newer): standard library only, no `scaffold`.

This folder is on PYTHONPATH during a run, so its modules are imported by their file names. Annotations that old Pythons
cannot evaluate are quoted: `from __future__ import annotations` came with 3.7.
"""
