"""The least an agent can be: a loop of http.client, json and sqlite3 that holds a conversation and keeps it.

`python turns_bare.py PORT TURNS SESSIONS` prints the processor time of each session in seconds, as JSON.
"""

import http.client
import json
import sqlite3
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SYSTEM = "You are an agent. Look before you act.\n" * 50
TOOL = {
    "type": "function",
    "function": {
        "name": "read_file",
        "description": "Read a file.",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}},
            "required": ["path"],
            "additionalProperties": False,
        },
    },
}
FOUND = "A line of the notes that were asked for.\n" * 10


def session(connection: http.client.HTTPConnection, database: sqlite3.Connection, turns: int) -> None:
    """Hold one conversation: each message is in the database before the next request."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "Go on."}]
    keep(database, messages[-1])
    while True:
        order = {"model": f"bench-{turns}-0", "stream": True, "stream_options": {"include_usage": True}}
        body = json.dumps(order | {"messages": messages, "tools": [TOOL]})
        connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
        reply = heard(connection.getresponse())
        messages.append(reply)
        keep(database, reply)
        if "tool_calls" not in reply:
            return
        for call in reply["tool_calls"]:
            json.loads(call["function"]["arguments"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": FOUND})
            keep(database, messages[-1])


def heard(response: http.client.HTTPResponse) -> dict[str, Any]:
    """Return the message of a stream."""
    text, calls = [], []
    for line in response:
        if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
            continue
        for choice in json.loads(line[6:])["choices"]:
            delta = choice["delta"]
            text.append(delta.get("content") or "")
            for call in delta.get("tool_calls", ()):
                if "id" in call:
                    calls.append(call)
                else:
                    calls[call["index"]]["function"]["arguments"] += call["function"]["arguments"]
    return {"role": "assistant", "content": "".join(text)} | ({"tool_calls": calls} if calls else {})


def keep(database: sqlite3.Connection, message: dict[str, Any]) -> None:
    """Add a message to what is kept, in a transaction of its own."""
    database.execute("INSERT INTO message (body) VALUES (?)", (json.dumps(message),))


def main(port: int, turns: int, sessions: int) -> None:
    """Hold the sessions, after a short one that is not counted."""
    with tempfile.TemporaryDirectory(prefix="scaffold-bench-") as folder:
        database = sqlite3.connect(Path(folder) / "bare.db", isolation_level=None)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        database.execute("CREATE TABLE message (seq INTEGER PRIMARY KEY, body TEXT NOT NULL)")
        connection = http.client.HTTPConnection("127.0.0.1", port)
        session(connection, database, 3)
        taken = []
        for _ in range(sessions):
            before = time.process_time()
            session(connection, database, turns)
            taken.append(time.process_time() - before)
    json.dump(taken, sys.stdout)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
