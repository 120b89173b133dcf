"""Start services next to a command, inside its sandbox; they end with it.

`main` takes `TOP WAYS COUNT SERVICE... COMMAND...`. Each service is a line for /bin/sh, run in TOP, followed by the
ports it listens on when ready: `redis-server --port 6380 @6380`. WAYS is empty, or a folder of sockets named by ports:
each is forwarded from the same port here. When all ports accept connections, the command replaces us (exec). Ending the
command's descendants ends the services too. If a service fails or is not ready in time, its output is written to stderr
and the command does not run: exit code 126.

This runs inside the sandbox and needs few of our modules there.
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
POLL_S = 0.02
LAST_BYTES = 2_000
BOOTSTRAP = (
    "import sys; sys.path.append(sys.argv[1]); from scaffold.host.sandbox import sidecar; sidecar.main(sys.argv[2:])"
)
"""Imported as a module, because Python caches the bytecode of modules but not of scripts."""

_PORTS = re.compile(r"(?:\s+@\d{1,5})+\s*$")


def with_services(
    services: Sequence[str], argv: Sequence[str], *, top: Path, socket_folder: Path | None = None
) -> tuple[str, ...]:
    """Return the command line that runs `argv` with `services`, which start in the folder `top`.

    `socket_folder` is a folder of sockets named by ports, which are forwarded too; None: no forwarding.
    """
    if not services and socket_folder is None:
        return tuple(argv)
    interpreter = (sys.executable, "-I", "-S", "-c", BOOTSTRAP, str(Path(scaffold.__file__).parents[1]))
    return (*interpreter, str(top), str(socket_folder or ""), str(len(services)), *services, *argv)


def main(words: list[str]) -> None:
    """Parse `words`, in the order above, start the services and become the command."""
    top, socket_folder, count = words[0], words[1], int(words[2])
    if socket_folder:
        _forward_ports(socket_folder)
    services = [SidecarService(words[3 + number], top) for number in range(count)]
    deadline = time.monotonic() + READY_S
    for service in services:
        if problem := service.wait_until_ready(deadline):
            _exit_with(problem, NOT_READY)
    command = words[3 + count :]
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, but commands expect the default
    try:
        os.execvp(command[0], command)  # noqa: S606 - the command's own words
    except OSError as error:
        code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_READY
        _exit_with(f"{error.strerror}: {command[0]}\n", code)


def _forward_ports(socket_folder: str) -> None:
    """Fork a process that listens on the ports named in `socket_folder` and relays connections to the sockets."""
    listeners: dict[str, socket.socket] = {}
    for name in os.listdir(socket_folder):  # noqa: PTH208 - names alone
        try:
            listeners[name] = socket.create_server(("127.0.0.1", int(name)), backlog=relay.BACKLOG)
        except OSError as error:
            _exit_with(f"Cannot listen on port {name} in the sandbox: {error.strerror}.\n", NOT_READY)
    if os.fork() == 0:
        # Without the command's stdio: its readers wait until all holders close it.
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(null, stream)
        os.chdir(socket_folder)  # the bare name always fits into a socket address
        slots = relay.connection_slots()
        for name, listener in listeners.items():
            _thread.start_new_thread(relay.serve, (listener, name, slots))
        while True:
            select.select([], [], [])
    for listener in listeners.values():
        listener.close()


def _exit_with(why: str, code: int) -> NoReturn:
    sys.stderr.write(why)
    sys.stderr.flush()
    os._exit(code)


class SidecarService:
    """A service, started from its line unless one of its ports is in use."""

    def __init__(self, line: str, top: str) -> None:
        ending = _PORTS.search(line)
        self._command = line[: ending.start()] if ending else line
        self._ports = [int(word.removeprefix("@")) for word in ending[0].split()] if ending else []
        # Asked before the start: afterwards a foreign server on the port would look like a service that is ready.
        self._taken = [port for port in self._ports if _is_listening(port)]
        self._status: int | None = None
        if self._taken:
            return
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

    def wait_until_ready(self, deadline: float) -> str:
        """Wait until every port accepts connections; return why that failed, empty on success."""
        if self._taken:
            return f"The service `{self._command}` was not started: port {self._taken[0]} is already in use.\n"
        while not all(_is_listening(port) for port in self._ports):
            # After exit 0 it may run on as a daemon.
            if self._status is None:
                pid, status = os.waitpid(self._pid, os.WNOHANG)
                self._status = os.waitstatus_to_exitcode(status) if pid else None
            if self._status not in {None, 0}:
                return self._failure_text(f"ended with exit code {self._status} before it was ready")
            if time.monotonic() >= deadline:
                ports = ", ".join(map(str, self._ports))
                return self._failure_text(f"did not listen on {ports} within {READY_S:g} s")
            select.select([], [], [], POLL_S)
        return ""

    def _failure_text(self, what: str) -> str:
        printed = Path(self._log).read_bytes()[-LAST_BYTES:].decode(errors="replace").strip()
        return f"The service `{self._command}` {what}.\n{printed}\n"


def _is_listening(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False
