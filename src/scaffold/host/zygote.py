"""Our side of a zygote: children that are forked from a warm process instead of started as fresh ones.

They live as all our children do: as long as we do, or shorter, each in a session of its own. Linux alone: elsewhere a
fork of a process that has loaded the system's libraries is not safe.
"""

import asyncio
import contextlib
import itertools
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
from scaffold.host.child import Child, start
from scaffold.host.nursery import LONGEST_BYTES, Asked, Begun, Ended, Known, Refused, Told, Wanted

UNKNOWN = -signal.SIGKILL
"""What counts as the exit code of a child whose zygote died before it: nobody was told."""
FULL_S = 0.001
"""How long to wait when the line to the zygote takes no more."""


class ZygoteGone(ScaffoldError):
    """The zygote died; another one can be started."""


def usable() -> bool:
    """Tell whether children can be forked on this system."""
    return sys.platform == "linux"


class Zygote:
    """A process that has loaded what children need and forks itself for each. Made by `open_zygote`.

    It may die at any time: its children go on, and are told to have ended when they have.
    """

    def __init__(self, child: Child, line: socket.socket) -> None:
        self._child = child
        self._line = line
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[_Forked]] = {}
        self._children: dict[int, _Forked] = {}
        self._gone = False
        asyncio.get_running_loop().add_reader(line, self._hear)

    @property
    def alive(self) -> bool:
        """Return whether it can be asked for children, as far as is known."""
        return not self._gone

    @property
    def identity(self) -> ProcessIdentity:
        """Return which process it is."""
        return self._child.identity

    async def fork(self, main: str, argument: str, *, log: Path) -> Child:
        """Return a new child that does `main` with `argument`; its output is appended to `log`, as by `child.start`.

        Raises OSError if no process can be had, ZygoteGone if there is nobody who could fork.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        number = next(self._numbers)
        source, hold = os.pipe()
        with contextlib.ExitStack() as undo, os.fdopen(source, "rb") as cut, log.open("ab") as sink:
            lifeline = undo.enter_context(os.fdopen(hold, "wb", buffering=0))
            answer: asyncio.Future[_Forked] = asyncio.get_running_loop().create_future()
            self._waiting[number] = answer
            try:
                await self._ask(Wanted(number, main, argument), cut.fileno(), sink.fileno())
                forked = await answer
            finally:
                self._waiting.pop(number, None)
            undo.pop_all()
        return Child(forked, lifeline)

    async def close(self) -> None:
        """End the zygote; children that still live are nobody's concern here, their lifelines hold them."""
        self._leave()
        self._child.kill()
        await self._child.wait()

    async def _ask(self, asked: Asked, *descriptors: int) -> None:
        while not self._gone:
            try:
                socket.send_fds(self._line, [encode(asked)], descriptors)
            except BlockingIOError:
                await asyncio.sleep(FULL_S)
            except OSError:
                self._leave()
            else:
                return
        raise ZygoteGone("the process that forks workers is gone", "Nothing is lost; start another one.")

    def _hear(self) -> None:
        while not self._gone:
            try:
                message = self._line.recv(LONGEST_BYTES)
            except BlockingIOError:
                return
            except OSError:
                message = b""
            if not message:
                self._leave()
                return
            self._heed(decode(message, type=Told))

    def _heed(self, told: Told) -> None:
        match told:
            case Begun(number=number, identity=identity):
                self._begin(number, identity)
            case Refused(number=number, errno=errno):
                if answer := self._waiting.pop(number, None):
                    answer.set_exception(OSError(errno, os.strerror(errno)))
            case Ended(number=number, code=code):
                self._children.pop(number).end(code)
                with contextlib.suppress(OSError):  # one that is gone gave all its numbers back
                    self._line.send(encode(Known(number)))
            case _:
                assert_never(told)

    def _begin(self, number: int, identity: ProcessIdentity) -> None:
        forked = self._children[number] = _Forked(identity)
        answer = self._waiting.pop(number, None)
        if answer and not answer.done():
            answer.set_result(forked)
        else:  # whoever asked was cancelled: without a lifeline the child ends by itself
            forked.disown()

    def _leave(self) -> None:
        """Give the line up, and look after the children ourselves."""
        if self._gone:
            return
        self._gone = True
        asyncio.get_running_loop().remove_reader(self._line)
        self._line.close()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(ZygoteGone("the process that forks workers died", "Start another one."))
        for forked in self._children.values():
            forked.watch()
        self._children.clear()


class _Forked:
    """A child of a zygote; a `child.Offspring`."""

    def __init__(self, identity: ProcessIdentity) -> None:
        self.pid = identity.pid
        self._code: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._handle = os.pidfd_open(self.pid)  # it has its pid for as long as we did not hear of its end

    @property
    def returncode(self) -> int | None:
        return self._code.result() if self._code.done() else None

    async def wait(self) -> int:
        return await asyncio.shield(self._code)

    def end(self, code: int) -> None:
        """Note how it ended."""
        if not self._code.done():
            self._code.set_result(code)
            os.close(self._handle)

    def watch(self) -> None:
        """Look for its end ourselves: nobody else tells."""
        loop = asyncio.get_running_loop()

        def gone() -> None:
            loop.remove_reader(self._handle)
            self.end(UNKNOWN)

        loop.add_reader(self._handle, gone)

    def disown(self) -> None:
        """Have it ended, whatever it does."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)


async def open_zygote(argv: Callable[[int], Sequence[str]], *, cwd: Path, env: Mapping[str, str], log: Path) -> Zygote:
    """Start a zygote: a program that calls `nursery.serve` on the socket whose descriptor it is told.

    `argv` makes its command line of that number. OSError if it cannot be started.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        child = await start(argv(theirs.fileno()), cwd=cwd, env=env, log=log, passed=(theirs.fileno(),))
    ours.setblocking(False)
    return Zygote(child, ours)
