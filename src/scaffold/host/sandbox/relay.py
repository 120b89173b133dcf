"""Runs inside a sandbox and leads to the proxy outside: `python -I -S relay.py SOCKET -- COMMAND...`.

Starts the command with the usual variables that name a proxy: a port of the sandbox's own loopback, where we listen and
pass bytes to and from SOCKET, a Unix socket. Ends when the command does and as it did. A script of its own because it
must start fast: hence the bare modules, without what is built on them.
"""

import _queue
import _signal  # type: ignore[import-not-found]
import _socket
import _thread
import os
import sys
from collections.abc import Sequence

UNCATCHABLE = (9, 19)
BACKLOG = 4096
"""More than anybody opens at once: where a queue is full, Linux answers by cookies, and may lose what is said first."""
PIECE_BYTES = 65536
MOST_CONNECTIONS = 200
STACK_BYTES = 262_144
"""Of each thread, two for a connection: what is set aside for them counts as memory of the command."""
SIGNAL_DEFAULTS = (13, 25)
"""SIGPIPE and SIGXFSZ, which Python ignores and a command does not expect to be ignored."""


def argv(socket: os.PathLike[str], command: Sequence[str]) -> tuple[str, ...]:
    """Return what to start inside the sandbox so that `command` reaches the proxy that listens at `socket`."""
    return (sys.executable, "-I", "-S", __file__, os.fspath(socket), "--", *command)


def main(path: str, command: list[str]) -> None:
    """Listen, run the command to its end, end like it."""
    listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", 0))
    listener.listen(BACKLOG)
    try:
        pid = os.posix_spawnp(command[0], command, _environment(listener.getsockname()[1]), setsigdef=SIGNAL_DEFAULTS)
    except OSError as error:
        os.write(2, f"{error.strerror}: {command[0]}\n".encode(errors="surrogateescape"))
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)
    folder, name = os.path.split(path)
    os.chdir(folder)  # the name alone is short enough for the address of a socket
    _thread.start_new_thread(listen, (listener, name, free_places()))
    _end_like(_status(pid))


def _environment(port: int) -> dict[str, str]:
    """Return our environment with what programs ask for a proxy, and for those that need none."""
    proxy = f"http://127.0.0.1:{port}"
    names = ("http_proxy", "https_proxy", "all_proxy")
    near = "localhost,127.0.0.1,::1"
    return {
        **os.environ,
        **dict.fromkeys((*names, *(name.upper() for name in names)), proxy),
        **dict.fromkeys(("no_proxy", "NO_PROXY"), near),
        "NODE_USE_ENV_PROXY": "1",
    }


def _status(pid: int) -> int:
    """Wait for the command, reaping whatever else becomes ours, and return its exit code, a signal negated."""
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == pid:
            return os.waitstatus_to_exitcode(status)


def _end_like(code: int) -> None:
    if code < 0:
        if -code not in UNCATCHABLE:
            _signal.signal(-code, _signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(abs(code))


def free_places() -> _queue.SimpleQueue[None]:
    """Return a place for each connection that may be there at once; more wait to be accepted."""
    _thread.stack_size(STACK_BYTES)
    places: _queue.SimpleQueue[None] = _queue.SimpleQueue()
    for _ in range(MOST_CONNECTIONS):
        places.put(None)
    return places


def listen(listener: _socket.socket, name: str, places: _queue.SimpleQueue[None]) -> None:
    """Lead each connection to the socket called `name` in this folder; never ends."""
    while True:
        places.get()
        try:
            fd, _ = listener._accept()  # type: ignore[attr-defined]  # noqa: SLF001 - `socket` takes 10 ms to import
            _thread.start_new_thread(_lead, (_socket.socket(fileno=fd), name, places))
        except (OSError, RuntimeError):  # it broke off before it was accepted, or no thread is to be had
            places.put(None)


def _lead(near: _socket.socket, name: str, places: _queue.SimpleQueue[None]) -> None:
    far = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        far.connect(name)
        answered = _thread.allocate_lock()
        answered.acquire()
        _thread.start_new_thread(_answer, (far, near, answered))
        _pump(near, far)
        answered.acquire()
    except (OSError, RuntimeError):  # whoever listened there is gone, and who asks sees a connection that ends
        pass
    finally:
        near.close()
        far.close()
        places.put(None)


def _answer(far: _socket.socket, near: _socket.socket, answered: _thread.LockType) -> None:
    try:
        _pump(far, near)
    finally:
        answered.release()


def _pump(source: _socket.socket, target: _socket.socket) -> None:
    """Pass on what comes until it ends, then tell the other side that it ended; the other direction goes on."""
    try:
        while piece := source.recv(PIECE_BYTES):
            target.sendall(piece)
        _shut(target, _socket.SHUT_WR)
    except OSError:  # one of them broke off: so does the other direction
        _shut(source, _socket.SHUT_RDWR)
        _shut(target, _socket.SHUT_RDWR)


def _shut(target: _socket.socket, ways: int) -> None:
    try:
        target.shutdown(ways)
    except OSError:
        return


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[3:])
