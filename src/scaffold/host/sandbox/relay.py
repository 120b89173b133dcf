"""Runs inside a sandbox and connects to the proxy outside: `python -I -S relay.py SOCKET -- COMMAND...`.

Starts the command with the usual proxy variables, which name a port of the sandbox's own loopback; there we listen and
pass bytes to and from SOCKET, a Unix socket. Exits like the command, with its code or signal. It must start fast, so it
is a separate script that uses the low-level C modules directly.
"""

import _queue
import _signal  # type: ignore[import-not-found]
import _socket
import _thread
import os
import sys
import time
from collections.abc import Sequence

UNCATCHABLE = (9, 19)
BACKLOG = 4096
"""More than any client opens at once: when the queue is full, Linux uses SYN cookies and may lose the first data."""
CHUNK_BYTES = 65536
MAX_CONNECTIONS = 200
PAUSE_S = 0.05
STACK_BYTES = 262_144
"""Per thread, two for each connection: their stacks count towards the command's memory limit."""
SIGNAL_DEFAULTS = (13, 15, 25)
"""SIGPIPE, SIGTERM and SIGXFSZ, which we ignore but commands expect at their defaults."""


def argv(socket: os.PathLike[str], command: Sequence[str]) -> tuple[str, ...]:
    """Return the command line that runs `command` inside the sandbox with access to the proxy at `socket`."""
    return (sys.executable, "-I", "-S", __file__, os.fspath(socket), "--", *command)


def main(path: str, command: list[str]) -> None:
    """Listen, run the command, and exit like it."""
    listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", 0))
    # The kernel accepts connections from here on, so the command may connect before `serve` runs.
    listener.listen(BACKLOG)
    env = {**os.environ, **proxy_variables(listener.getsockname()[1])}
    # Meant for the command, which gets it, too: with our end it would be killed at once.
    _signal.signal(_signal.SIGTERM, _signal.SIG_IGN)
    try:
        pid = os.posix_spawnp(command[0], command, env, setsigdef=SIGNAL_DEFAULTS)
    except OSError as error:
        os.write(2, f"{error.strerror}: {command[0]}\n".encode(errors="surrogateescape"))
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)
    folder, name = os.path.split(path)
    # Only after the spawn, as the command must start in the folder it was given.
    os.chdir(folder)  # the bare name always fits into a socket address
    _thread.start_new_thread(serve, (listener, name, connection_slots()))
    ended = status = 0
    while ended != pid:  # orphans end here, too
        ended, status = os.waitpid(-1, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        if -code not in UNCATCHABLE:
            _signal.signal(-code, _signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(abs(code))


def proxy_variables(port: int) -> dict[str, str]:
    """Return the variables by which programs use the proxy at a port of loopback."""
    names = ("http_proxy", "https_proxy", "all_proxy")
    return {
        **dict.fromkeys((*names, *map(str.upper, names)), f"http://127.0.0.1:{port}"),
        **dict.fromkeys(("no_proxy", "NO_PROXY"), "localhost,127.0.0.1,::1"),
        "NODE_USE_ENV_PROXY": "1",
    }


def connection_slots() -> _queue.SimpleQueue[None]:
    """Return a queue with one item for each allowed simultaneous connection; further ones wait to be accepted."""
    _thread.stack_size(STACK_BYTES)
    slots: _queue.SimpleQueue[None] = _queue.SimpleQueue()
    for _ in range(MAX_CONNECTIONS):
        slots.put(None)
    return slots


def serve(listener: _socket.socket, name: str, slots: _queue.SimpleQueue[None]) -> None:
    """Relay each connection to the socket `name` in the current folder; never returns."""
    while True:
        slots.get()
        try:
            fd, _ = listener._accept()  # type: ignore[attr-defined]  # noqa: SLF001 - `socket` takes 10 ms to import
            _thread.start_new_thread(_relay_connection, (_socket.socket(fileno=fd), name, slots))
        except (OSError, RuntimeError):  # the client closed before it was accepted, or no thread could be started
            slots.put(None)
            # Without descriptors or threads left, the next try would fail at once, too. No event tells of new ones.
            time.sleep(PAUSE_S)  # noqa: TID251 - runs alone in the sandbox, without a clock


def _relay_connection(near: _socket.socket, name: str, slots: _queue.SimpleQueue[None]) -> None:
    far = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        far.connect(name)
        # `_thread` has no join: the other thread releases this lock when it is done.
        answered = _thread.allocate_lock()
        answered.acquire()
        _thread.start_new_thread(_pump_back, (far, near, answered))
        _pump_bytes(near, far)
        answered.acquire()
    except (OSError, RuntimeError):  # the proxy is gone: the client sees its connection close
        pass
    finally:
        near.close()
        far.close()
        slots.put(None)


def _pump_back(far: _socket.socket, near: _socket.socket, answered: _thread.LockType) -> None:
    try:
        _pump_bytes(far, near)
    finally:
        answered.release()


def _pump_bytes(source: _socket.socket, target: _socket.socket) -> None:
    # At EOF only this direction ends.
    try:
        while piece := source.recv(CHUNK_BYTES):
            target.sendall(piece)
        _shut_down(target, _socket.SHUT_WR)
    except OSError:  # one side is broken: close the other direction too
        _shut_down(source, _socket.SHUT_RDWR)
        _shut_down(target, _socket.SHUT_RDWR)


def _shut_down(target: _socket.socket, how: int) -> None:
    try:
        target.shutdown(how)
    except OSError:
        return


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[3:])
