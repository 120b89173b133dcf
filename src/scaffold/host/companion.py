"""Services beside a command: started before it, in its sandbox, and ended with it.

`begin` takes `TOP WAYS COUNT SERVICE... COMMAND...`. Each service is a line for /bin/sh, run in TOP, with the ports at
its end that it listens on once it is ready: `redis-server --port 6380 @6380`. WAYS is empty, or a folder of sockets
named by ports: what is behind them, outside, is found on the same ports here. When all accept, the command takes our
place. Whoever ends the command ends its descendants, the services among them. A service that ends badly, or does not
get ready in time, is told on standard error with what it printed, and the command is not run: exit 126.

It runs in the sandbox, and needs little of ours there.
"""

import _thread
import os
import re
import select
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import scaffold
from scaffold.host.sandbox import relay

NOT_READY = 126
NOT_FOUND = 127
READY_S = 60.0
ROUND_S = 0.02
LAST_BYTES = 2_000
BEGIN = "import sys; sys.path.append(sys.argv[1]); from scaffold.host import companion; companion.begin(sys.argv[2:])"
"""Python keeps what it has compiled of a module, not of a script."""

_PORTS = re.compile(r"(?:\s+@\d{1,5})+\s*$")


def beside(services: Sequence[str], argv: Sequence[str], *, top: Path, ways: Path | None = None) -> tuple[str, ...]:
    """Return what to start instead of `argv` so that `services` run beside it, begun in `top`.

    With `ways`, a folder of sockets, it also finds what these lead to.
    """
    if not services and ways is None:
        return tuple(argv)
    interpreter = (sys.executable, "-I", "-S", "-c", BEGIN, str(Path(scaffold.__file__).parents[1]))
    return (*interpreter, str(top), str(ways or ""), str(len(services)), *services, *argv)


def begin(words: list[str]) -> None:
    """Do what is asked for in `words`, in the order above."""
    top, ways, count = words[0], words[1], int(words[2])
    if ways:
        _lead_out(ways)
    services = [Service(words[3 + number], top) for number in range(count)]
    deadline = time.monotonic() + READY_S
    for service in services:
        if trouble := service.trouble_until_ready(deadline):
            _leave(trouble, NOT_READY)
    _become(words[3 + count :])


def _lead_out(ways: str) -> None:
    """Have a process of its own listen on the ports that `ways` names, and lead from there to the sockets."""
    listeners = {name: _listening(int(name)) for name in os.listdir(ways)}  # noqa: PTH208 - names alone
    if os.fork() == 0:
        _stay_and_lead(ways, listeners)
    for listener in listeners.values():
        listener.close()


def _listening(port: int) -> socket.socket:
    try:
        return socket.create_server(("127.0.0.1", port), backlog=relay.BACKLOG)
    except OSError as error:
        _leave(f"Nothing can listen on port {port} in the sandbox: {error.strerror}.\n", NOT_READY)


def _stay_and_lead(ways: str, listeners: dict[str, socket.socket]) -> NoReturn:
    """Hold nothing of the command's: who reads what it prints waits for the end of all who hold it."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
    os.chdir(ways)  # the name alone is short enough for the address of a socket
    places = relay.free_places()
    for name, listener in listeners.items():
        _thread.start_new_thread(relay.listen, (listener, name, places))
    while True:
        select.select([], [], [])


def _become(command: list[str]) -> None:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and a command does not expect it to be ignored
    try:
        os.execvp(command[0], command)  # noqa: S606 - the command's own words
    except OSError as error:
        code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_READY
        _leave(f"{error.strerror}: {command[0]}\n", code)


def _leave(why: str, code: int) -> NoReturn:
    sys.stderr.write(why)
    sys.stderr.flush()
    os._exit(code)


class Service:
    """One service, as its line says it."""

    def __init__(self, line: str, top: str) -> None:
        ending = _PORTS.search(line)
        self._command = line[: ending.start()] if ending else line
        self._ports = [int(word.removeprefix("@")) for word in ending[0].split()] if ending else []
        self._taken = [port for port in self._ports if _accepts(port)]
        self._status: int | None = None
        if not self._taken:
            self._start(top)

    def trouble_until_ready(self, deadline: float) -> str:
        """Wait until every port accepts; return why that will not happen, nothing once it has."""
        if self._taken:
            return (
                f"The service `{self._command}` was not started: somebody listens on port {self._taken[0]} already.\n"
            )
        while not all(_accepts(port) for port in self._ports):
            if self._ended() not in {None, 0}:
                return self._told(f"ended with exit {self._status} before it was ready")
            if time.monotonic() >= deadline:
                ports = ", ".join(map(str, self._ports))
                return self._told(f"did not listen on {ports} within {READY_S:g} s")
            select.select([], [], [], ROUND_S)
        return ""

    def _start(self, top: str) -> None:
        self._output, self._log = tempfile.mkstemp(prefix="service-", suffix=".txt")
        script = 'cd "$1" && eval "$2"'
        self._pid = os.posix_spawn(
            "/bin/sh",
            ["sh", "-c", script, "sh", top, self._command],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, self._output, 1),
                (os.POSIX_SPAWN_DUP2, self._output, 2),
            ],
            setsid=True,
        )

    def _ended(self) -> int | None:
        """Return its exit code, or its signal negated; None while it lives. One that ended well may go on behind."""
        if self._status is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            self._status = os.waitstatus_to_exitcode(status) if pid else None
        return self._status

    def _told(self, what: str) -> str:
        printed = Path(self._log).read_bytes()[-LAST_BYTES:].decode(errors="replace").strip()
        return f"The service `{self._command}` {what}.\n{printed}\n"


def _accepts(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False
