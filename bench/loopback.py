"""The provider on loopback, and the processes that are measured against it."""

import json
import os
import subprocess  # noqa: TID251 - a bench starts the processes it measures, ours and others', all in one way
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from msgspec import Struct

HERE = Path(__file__).parent
PEERS = HERE.parent / ".venv-peers"
PYTHON = PEERS / "bin" / "python"
CODEX = PEERS / "node" / "node_modules" / ".bin" / "codex"
PATIENCE_S = 300.0


class ReceivedRequests(Struct, frozen=True, kw_only=True):
    """What came to the provider since it forgot."""

    requests: int
    first_at_s: float
    """On the machine's monotonic clock."""
    first_bytes: int
    """Of the first request's body."""
    input_tokens: int
    cached_tokens: int


class Provider(Struct, frozen=True):
    """The provider's process."""

    port: int

    @property
    def url(self) -> str:
        """Return its base URL."""
        return f"http://127.0.0.1:{self.port}"

    def forget(self) -> None:
        """Have it forget what came so far."""
        self._look("/forget")

    def received(self) -> ReceivedRequests:
        """Return what came since then."""
        return ReceivedRequests(**self._look("/told"))

    def _look(self, path: str) -> Any:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        connection.request("GET", path)
        data = json.loads(connection.getresponse().read())
        connection.close()
        return data


@contextmanager
def provider() -> Iterator[Provider]:
    """Hold a provider; it ends with the block, or with us."""
    argv = [sys.executable, str(HERE / "provider.py")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield Provider(int(process.stdout.readline()))
        finally:
            process.stdin.close()


def run_program(argv: Sequence[str | Path], *, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> bytes:
    """Return what a process prints; AssertionError with its complaint if it fails.

    It may keep compiled modules, as installed programs do, whatever the environment says: the first one pays for them.
    """
    ours = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        argv,
        cwd=cwd,
        env={**ours, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=PATIENCE_S,
    )
    if done.returncode != 0:
        raise AssertionError(argv, done.returncode, done.stderr.decode()[-2000:])
    return done.stdout


def ours(script: str, *args: int) -> Any:
    """Return what one of the scripts beside this one prints, as JSON."""
    return json.loads(run_program([sys.executable, HERE / script, *map(str, args)]))


def theirs(script: str, *args: int) -> Any:
    """Return the same of one of the scripts for the peers, which have an environment of their own."""
    return json.loads(run_program([PYTHON, HERE / "peers" / script, *map(str, args)]))


def missing(program: Path, bench: str) -> bool:
    """Tell whether a peer's program is not there; its bench is then reported as skipped, on stderr."""
    if program.exists() and (PEERS / ".ready").exists():
        return False
    sys.stderr.write(f"skipped {bench}: {PEERS.name} does not hold it; `bench/peers/setup` makes that\n")
    return True
