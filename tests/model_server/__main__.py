"""A loopback server as a process, for tests of the real commands: `python -m model_server SCRIPT [--log FILE]`.

SCRIPT is YAML: `protocol: anthropic | chat | responses` and `replies`, a list of turns (see `model_server.turn`).
The first line printed is JSON: `{"base_url", "port", "model", "environ"}`. With --log every request is appended as a
line of JSON: `{"path", "headers", "body"}`. The server ends with its standard input.
"""

import argparse
import asyncio
import json
import sys
from pathlib import Path

import msgspec
import yaml
from msgspec import Struct

from model_server.server import Server, serve
from model_server.turn import Protocol, Received, Turn


class Script(Struct, frozen=True, forbid_unknown_fields=True):
    """The content of the file."""

    protocol: Protocol
    replies: tuple[Turn, ...]


async def run(script: Script, log: Path | None) -> None:
    """Serve until standard input ends."""
    async with serve(script.protocol, script.replies) as server:
        if log is not None:
            server.requests = _Log(log)
        print(_about(server), flush=True)
        await asyncio.to_thread(sys.stdin.read)


def _about(server: Server) -> str:
    about = {"base_url": server.base_url, "port": server.port, "model": server.model, "environ": server.environ}
    return json.dumps(about)


class _Log(list[Received]):
    """Requests that are logged as they arrive."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def append(self, received: Received) -> None:
        super().append(received)
        line = {"path": received.path, "headers": received.headers, "body": received.json}
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m model_server")
    parser.add_argument("script", type=Path)
    parser.add_argument("--log", type=Path)
    given = parser.parse_args()
    asyncio.run(run(msgspec.convert(yaml.safe_load(given.script.read_text()), Script), given.log))
