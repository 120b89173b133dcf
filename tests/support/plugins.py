"""Plugins for tests: real programs, well-behaved or not."""

import json
import shutil
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples" / "plugins"

HEAD = f"""#!{sys.executable} -IS
import json, os, sys, time

def read():
    return json.loads(sys.stdin.readline())

def write(data):
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()

def answer(request, result):
    write(json.dumps({{"jsonrpc": "2.0", "id": request["id"], "result": result}}).encode() + b"\\n")

"""
LOOP = """
request = read()
answer(request, MANIFEST)
while True:
    request = read()
    method = request["method"]
    if method == "shutdown":
        answer(request, {})
        sys.exit()
    respond(request, method, request["params"])
"""


def place(folder, name, text, mode=0o755):
    """Write a file of the plugins folder."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text)
    path.chmod(mode)
    return path


def place_plugin(folder, name, respond="answer(request, {})", **manifest):
    """Write a plugin whose answer to each hook and tool is made by the statements `respond`."""
    given = {"name": name, **manifest}
    body = "\n".join(f"    {line}" for line in respond.splitlines())
    text = f"MANIFEST = json.loads({json.dumps(json.dumps(given))})\ndef respond(request, method, params):\n{body}\n"
    return place(folder, f"{name}.py", HEAD + text + LOOP)


def place_program(folder, name, body):
    """Write a plugin that executes these statements instead of the protocol."""
    return place(folder, f"{name}.py", HEAD + body)


def place_examples(folder):
    """Copy the examples and their kit."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in EXAMPLES.iterdir():
        if file.is_file():
            shutil.copy(file, folder)
