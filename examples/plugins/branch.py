#!/usr/bin/env python3
"""Tell the agent with each request what git says about the folder, and offer a tool that counts lines."""

import subprocess
from pathlib import Path

from ralph_plugin import Plugin

plugin = Plugin("branch", version="1.0")


@plugin.hook
def context_enhance(params):
    """Add the state of the working tree."""
    status = subprocess.run(["git", "status", "--short", "--branch"], capture_output=True, text=True, check=False)
    return {"context": f"git status:\n{status.stdout[:2000]}"} if status.returncode == 0 else None


@plugin.tool("Count the lines of a text file.", {"path": {"type": "string"}}, required=["path"])
def count_lines(path):
    """Return how many lines a file has."""
    return f"{path} has {len(Path(path).read_text().splitlines())} lines"


plugin.run()
