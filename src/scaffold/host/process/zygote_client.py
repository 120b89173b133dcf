"""The client of a zygote: get children forked from a warm process instead of starting new ones.

Like all our children they never outlive us, and each has its own session. Linux only: elsewhere it is not safe to fork
a process that has loaded system libraries.
"""

import asyncio
import contextlib
import itertools
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import assert_never

from msgspec.json import decode, encode

from scaffold.core.errors import ScaffoldError
from scaffold.core.model import ProcessIdentity
from scaffold.host.process.child import ChildProcess, start_child
from scaffold.host.process.zygote_server import (
    MAX_MESSAGE_BYTES,
    ChildExited,
    ExitAck,
    Forked,
    ForkFailed,
    ForkReply,
    ForkRequest,
    ServerMessage,
)

LOG = logging.getLogger(__name__)
UNKNOWN_EXIT_CODE = -signal.SIGKILL
"""Reported for a child whose zygote died before it: its real exit code is lost."""
SEND_RETRY_S = 0.001
"""Pause while the socket buffer to the zygote is full."""


class ZygoteDied(ScaffoldError):
    """The zygote died; the caller can start another."""


def can_fork() -> bool:
    """Return True if this system supports the zygote."""
    return sys.platform == "linux"


class Zygote:
    """A process that has imported what children need and forks itself for each. Created by `open_zygote`.

    It may die at any time: its children keep running, and their ends are still reported.
    """

    def __init__(self, child: ChildProcess, line: socket.socket) -> None:
        self._child = child
        self._line = line
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[_ForkedProcess]] = {}
        self._children: dict[int, _ForkedProcess] = {}
        self._gone = False
        asyncio.get_running_loop().add_reader(line, self._on_readable)

    @property
    def alive(self) -> bool:
        """Return False once the zygote is known to have exited."""
        return not self._gone

    async def fork(self, main: str, argument: str, *, log: Path) -> ChildProcess:
        """Return a new child that runs `main` with `argument`; its output is appended to `log`, as in `start_child`.

        Raises OSError if fork fails, ZygoteDied if the zygote is gone.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        number = next(self._numbers)
        source, hold = os.pipe()
        with contextlib.ExitStack() as undo, os.fdopen(source, "rb") as cut, log.open("ab") as sink:
            lifeline = undo.enter_context(os.fdopen(hold, "wb", buffering=0))
            answer: asyncio.Future[_ForkedProcess] = asyncio.get_running_loop().create_future()
            self._waiting[number] = answer
            try:
                await self._send_message(ForkRequest(number, main, argument), cut.fileno(), sink.fileno())
                forked = await answer
            finally:
                self._waiting.pop(number, None)
            # From here on the caller owns the lifeline. After an error before, its end also ends a child that was
            # forked after all.
            undo.pop_all()
        LOG.debug("forked process %d: %s %s", forked.pid, main, argument)
        return ChildProcess(forked, lifeline)

    async def close(self) -> None:
        """End the zygote; running children continue and are ended through their lifelines."""
        self._leave_zygote()
        self._child.kill()
        await self._child.wait()

    async def _send_message(self, message: ServerMessage, *descriptors: int) -> None:
        while not self._gone:
            try:
                socket.send_fds(self._line, [encode(message)], descriptors)
            except BlockingIOError:
                await asyncio.sleep(SEND_RETRY_S)
            except OSError:
                self._leave_zygote()
            else:
                return
        raise ZygoteDied("the process that forks workers is not running", "Nothing is lost; start another one.")

    def _on_readable(self) -> None:
        while not self._gone:
            try:
                message = self._line.recv(MAX_MESSAGE_BYTES)
            except BlockingIOError:
                return
            except OSError:
                message = b""
            if not message:
                self._leave_zygote()
                return
            self._handle_reply(decode(message, type=ForkReply))

    def _handle_reply(self, reply: ForkReply) -> None:
        match reply:
            case Forked(number=number, identity=identity):
                forked = self._children[number] = _ForkedProcess(identity)
                answer = self._waiting.pop(number, None)
                if answer and not answer.done():
                    answer.set_result(forked)
                else:  # the caller was cancelled and its lifeline closed: the child would end anyway
                    forked.kill()
            case ForkFailed(number=number, errno=errno):
                if answer := self._waiting.pop(number, None):
                    answer.set_exception(OSError(errno, os.strerror(errno)))
            case ChildExited(number=number, code=code):
                self._children.pop(number).end(code)
                self._acknowledge_exit(number)
            case _:
                assert_never(reply)

    def _acknowledge_exit(self, number: int) -> None:
        # Until then the child's pid is not reused.
        if self._gone:
            return  # the zygote's children are not its own any more, so nothing waits for this
        try:
            self._line.send(encode(ExitAck(number)))
        except BlockingIOError:
            asyncio.get_running_loop().call_later(SEND_RETRY_S, self._acknowledge_exit, number)
        except OSError:
            self._leave_zygote()

    def _leave_zygote(self) -> None:
        """Close the line and watch the children ourselves from now on."""
        if self._gone:
            return
        self._gone = True
        asyncio.get_running_loop().remove_reader(self._line)
        self._line.close()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(ZygoteDied("the process that forks workers died", "Start another one."))
        # The children outlive the zygote, but another process reaps them now, so their exit codes are lost.
        for forked in self._children.values():
            forked.watch()
        self._children.clear()


class _ForkedProcess:
    """A child of a zygote; implements `ProcessHandle`."""

    def __init__(self, identity: ProcessIdentity) -> None:
        self.pid = identity.pid
        self._code: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._handle = os.pidfd_open(self.pid)  # its pid is not reused before we acknowledge its end

    @property
    def returncode(self) -> int | None:
        return self._code.result() if self._code.done() else None

    async def wait(self) -> int:
        # Several callers may wait; the cancellation of one must not cancel the future for the others.
        return await asyncio.shield(self._code)

    def end(self, code: int) -> None:
        """Record its exit code."""
        if not self._code.done():
            self._code.set_result(code)
            os.close(self._handle)

    def watch(self) -> None:
        """Watch for its end ourselves, because the zygote no longer reports it."""
        loop = asyncio.get_running_loop()

        def has_exited() -> None:
            loop.remove_reader(self._handle)
            self.end(UNKNOWN_EXIT_CODE)

        loop.add_reader(self._handle, has_exited)

    def kill(self) -> None:
        """Kill it."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)


async def open_zygote(argv: Callable[[int], Sequence[str]], *, cwd: Path, env: Mapping[str, str], log: Path) -> Zygote:
    """Start a zygote: a program that calls `zygote_server.serve` on the socket with the given descriptor.

    `argv` builds its command line from that descriptor number. OSError if it cannot be started.
    """
    # SOCK_SEQPACKET preserves message boundaries and reports a dead peer as the end of the stream.
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        child = await start_child(argv(theirs.fileno()), cwd=cwd, env=env, log=log, inherited_fds=(theirs.fileno(),))
    ours.setblocking(False)
    return Zygote(child, ours)
