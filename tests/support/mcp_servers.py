"""MCP servers for tests: real programs that speak the protocol by themselves, well-behaved or not."""

import json
import sys
from pathlib import Path

HEAD = f"""#!{sys.executable} -IS
import json, os, sys, time

def read():
    line = sys.stdin.readline()
    if not line:
        sys.exit()
    return json.loads(line)

def write(message):
    sys.stdout.write(json.dumps({{"jsonrpc": "2.0", **message}}) + "\\n")
    sys.stdout.flush()

def answer(request, result):
    write({{"id": request["id"], "result": result}})

def text(request, words, **more):
    answer(request, {{"content": [{{"type": "text", "text": words}}], **more}})

def refuse(request, code, message, data=None):
    write({{"id": request["id"], "error": {{"code": code, "message": message, "data": data}}}})

"""
LOOP = """
while True:
    request = read()
    method = request.get("method")
    if method == "initialize":
        answer(request, {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "scripted", "version": "1"},
        })
    elif method == "tools/list":
        answer(request, {"tools": tools()})
    elif method == "tools/call":
        call(request, request["params"]["name"], request["params"].get("arguments") or {})
    elif "id" in request and method:
        refuse(request, -32601, "unknown method")
"""
ADD = {
    "name": "add",
    "description": "Add one.",
    "inputSchema": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
}
ADDS = "text(request, f\"sum {arguments['a'] + 1}\")"


def place_server(folder, name, call=ADDS, tools=(ADD,), *, before=""):
    """Write a server whose calls are answered by the statements `call`, and return the file.

    `tools` are definitions, or an expression for them; `before` are statements that run at its start.
    """
    body = "\n".join(f"    {line}" for line in call.splitlines())
    listed = tools if isinstance(tools, str) else f"json.loads({json.dumps(json.dumps(list(tools)))})"
    text = f"{before}\ndef tools():\n    return {listed}\ndef call(request, name, arguments):\n{body}\n"
    return place_program(folder, name, text + LOOP)


def place_program(folder, name, body):
    """Write a server that executes these statements instead of the protocol, and return the file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.py"
    path.write_text(HEAD + body)
    path.chmod(0o755)
    return path


def entry(file: Path, **more):
    """Return the entry of `mcp.json` for a server of ours, which may read its own folder."""
    return {"command": str(file), "reads": [str(file.parent)], **more}


def configure_servers(scenario, **servers):
    """Write the user's `mcp.json`; it replaces what was written before."""
    folder = scenario.home / "scaffold" / "config"
    folder.mkdir(parents=True, exist_ok=True)
    named = {name.replace("_", "-"): server for name, server in servers.items()}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": named}))
