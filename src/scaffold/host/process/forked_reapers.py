"""Reapers forked from one server of this process, on Linux; see `reaper_server`."""

import asyncio
import atexit
import contextlib
import functools
import os
import resource
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from scaffold.host.process.pipes import ReaperPipe, interpreter

SERVER_SCRIPT = Path(__file__).with_name("reaper_server.py")
MAX_DESCRIPTORS = 200
"""With more of them, a reaper is started afresh: one message carries 253."""
BEGIN_S = 10.0
"""A server that has not forked a reaper after this time is killed; the command counts as killed, too."""
LOADER_VARIABLE = "LD_LIBRARY_PATH"
"""All that the server inherits: secrets in its environment could be read by any command without a sandbox."""


class ForkedReaper:
    """A forked reaper; implements `ProcessHandle`.

    It may begin once it has told us its pid, and has ended once its report has.
    """

    def __init__(self, reaper: ReaperPipe, server: "ReaperServer") -> None:
        self._reaper = reaper
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(reaper.report, self._read_report)
        self._timer = self._loop.call_later(BEGIN_S, self.kill)

    @property
    def pid(self) -> int:
        """Return its pid; 0 if it has not begun yet."""
        return self._reaper.pid

    @property
    def returncode(self) -> int | None:
        """Return 0 once it has ended: its report says how."""
        return 0 if self._ended.done() else None

    async def wait(self) -> int:
        """Wait for its end."""
        await asyncio.shield(self._ended)
        return 0

    def kill(self) -> None:
        """Kill it if it has not ended; a server that has not even forked it is killed, which ends its report."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL) if self.pid else self._server.kill()

    def _read_report(self) -> None:
        unknown = not self.pid
        at_end = self._reaper.read_report()
        if at_end or self.pid:
            self._timer.cancel()
        if unknown and self.pid:
            self._reaper.begin()
        if at_end:
            self._loop.remove_reader(self._reaper.report)
            self._ended.set_result(None)


class ReaperServer:
    """The server of this process, started with the first command and again after it was killed.

    Forks of this process share it.
    """

    def __init__(self) -> None:
        self._line: socket.socket | None = None
        self._pid = 0
        self._first_too_high = 0
        atexit.register(self.close)

    def fork(
        self, reaper: ReaperPipe, stdio: Sequence[int], passed: Sequence[int], *, cwd: Path, env: Mapping[str, str]
    ) -> ForkedReaper | None:
        """Return a reaper for the command of `reaper`; None if it has to be started in another way.

        It gets `stdio` as its standard streams, and the descriptors `passed` with the numbers they have here. OSError
        if the working directory cannot be opened.
        """
        numbers = (0, 1, 2, *passed, *reaper.passed)
        if sys.platform != "linux" or len(numbers) > MAX_DESCRIPTORS:
            return None
        # Our limit may have been raised since the server began; a reaper moves descriptors above all numbers.
        if self._line is not None and max(numbers) + len(numbers) >= self._first_too_high:
            return None
        variables = [f"{name}={value}" for name, value in env.items()]
        words = (",".join(map(str, numbers)), str(len(variables)), *variables, *reaper.words)
        with contextlib.ExitStack() as stack:
            folder = os.open(cwd, os.O_PATH | os.O_DIRECTORY)
            stack.callback(os.close, folder)
            request = stack.enter_context(os.fdopen(os.memfd_create("request"), "wb", buffering=0))
            request.write(os.fsencode("\0".join(words)))
            descriptors = [request.fileno(), folder, *stdio, *passed, *reaper.passed]
            # A second try starts a new server if the old one is gone.
            for _ in range(2):
                with contextlib.suppress(OSError):
                    socket.send_fds(self._line or self.start(), [b"\n"], descriptors)
                    break
                self.close()
            else:
                return None
        return ForkedReaper(reaper, self)

    def close(self) -> None:
        """End the server; reapers that it forked go on."""
        if self._line is not None:
            self._line.close()
            self._line = None
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._pid, os.WNOHANG)

    def kill(self) -> None:
        """Kill a server that does not answer; the next request starts another one."""
        if self._line is not None:
            os.kill(self._pid, signal.SIGKILL)
            self.close()

    def start(self) -> socket.socket:
        """Start the server, and return the socket for requests; OSError if it cannot be started."""
        # SOCK_SEQPACKET preserves message boundaries and reports a dead peer as the end of the stream.
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        argv = interpreter(SERVER_SCRIPT, "serve()")
        quiet = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_WRONLY, 0) for number in (1, 2)]
        with theirs:
            self._pid = os.posix_spawn(
                argv[0],
                argv,
                {name: value for name, value in os.environ.items() if name == LOADER_VARIABLE},
                file_actions=[(os.POSIX_SPAWN_DUP2, theirs.fileno(), 0), *quiet],
                setsid=True,
                setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),
            )
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._first_too_high = sys.maxsize if limit == resource.RLIM_INFINITY else limit
        ours.setblocking(False)  # if a server that was stopped reads nothing, another one is started
        self._line = ours
        return ours


@functools.cache
def reaper_server() -> ReaperServer:
    """Return the server of this process."""
    return ReaperServer()
