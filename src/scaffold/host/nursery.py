"""What a zygote does: on request it forks itself, and tells how its children end.

A fork of a process that has loaded everything costs milliseconds, and its memory is shared until it is written to. So
the zygote has one thread and no event loop, opens nothing, and does nothing else; see `zygote` for who asks.
"""

import gc
import os
import select
import signal
import socket
import sys
import threading

from msgspec import Struct
from msgspec.json import decode, encode

from scaffold.core.model import ProcessIdentity
from scaffold.host.identity import identify

LONGEST_BYTES = 65_536
"""Of a message."""


class Wanted(Struct, frozen=True, tag="wanted"):
    """Somebody wants a child; its standard input and its log come along as descriptors, in this order."""

    number: int
    """Of the request, repeated in what is told of the child."""
    main: str
    """What the child is to do, by a name that both sides know."""
    argument: str


class Known(Struct, frozen=True, tag="known"):
    """The end of a child was heard of: its number among the processes may be given to others now."""

    number: int


Asked = Wanted | Known


class Begun(Struct, frozen=True, tag="begun"):
    """A child was forked."""

    number: int
    identity: ProcessIdentity


class Refused(Struct, frozen=True, tag="refused"):
    """No child could be had, for the reason the system gave."""

    number: int
    errno: int


class Ended(Struct, frozen=True, tag="ended"):
    """A child is gone."""

    number: int
    code: int
    """Exit code; negative for the signal that ended it."""


Told = Begun | Refused | Ended


class Born(Struct, frozen=True):
    """What a child has been forked for."""

    main: str
    argument: str


def serve(line: socket.socket) -> Born | None:
    """Fork whenever `line` asks for it; returns in every child what it is for, and None here once nobody asks any more.

    In a child standard input and both outputs are what came along, it leads a session of its own, and `line` is
    closed. To be called by a process with a single thread, after everything was loaded that children share.
    """
    if threading.active_count() > 1:
        raise RuntimeError("a process with several threads cannot be forked safely")
    gc.collect()
    gc.freeze()  # what is never looked at is never written to, and stays shared
    return _Nursery(line).serve()


class _Nursery:
    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._living: dict[int, int] = {}
        """The numbers of the requests that children came from, by pid."""
        self._ended: dict[int, int] = {}
        """The pids of children that are gone and told of, by the numbers of their requests."""
        self._wake, self._bell = os.pipe()
        os.set_blocking(self._bell, False)

    def serve(self) -> Born | None:
        """Fork until nobody asks any more, as the function of this name says."""
        signal.signal(signal.SIGCHLD, _heard)
        signal.set_wakeup_fd(self._bell, warn_on_full_buffer=False)
        while True:
            ready, _, _ = select.select([self._line.fileno(), self._wake], [], [])
            if self._wake in ready:
                os.read(self._wake, 512)
                self._look_after()
            if self._line.fileno() in ready:
                message, descriptors, _, _ = socket.recv_fds(self._line, LONGEST_BYTES, 2)
                if not message:
                    return None
                match decode(message, type=Asked):
                    case Wanted() as wanted:
                        if born := self._fork(wanted, descriptors):
                            return born
                    case Known(number=number):
                        os.waitpid(self._ended.pop(number), 0)

    def _fork(self, wanted: Wanted, descriptors: list[int]) -> Born | None:
        """Fork; return in the child what it is for."""
        for stream in (sys.stdout, sys.stderr):
            stream.flush()  # what is still to be written would be written by both
        try:
            pid = os.fork()
        except OSError as error:
            self._tell(Refused(wanted.number, error.errno or 0))
            pid = -1
        if pid == 0:
            self._settle(*descriptors)
            return Born(wanted.main, wanted.argument)
        for descriptor in descriptors:
            os.close(descriptor)
        if pid > 0:
            self._living[pid] = wanted.number
            self._tell(Begun(wanted.number, identify(pid) or ProcessIdentity(pid, "", "")))
        return None

    def _settle(self, stdin: int, log: int) -> None:
        """Make a process of its own of the child."""
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.dup2(stdin, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        for descriptor in {stdin, log, self._wake, self._bell} - {0, 1, 2}:
            os.close(descriptor)
        self._line.close()

    def _look_after(self) -> None:
        """Tell of children that ended; they keep their pids until that is known."""
        for pid in list(self._living):
            ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended:
                number = self._living.pop(pid)
                self._ended[number] = pid
                code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
                self._tell(Ended(number, code))

    def _tell(self, told: Told) -> None:
        try:
            self._line.send(encode(told))
        except (BrokenPipeError, ConnectionResetError):
            return  # nobody listens any more: the line is about to end


def _heard(_number: int, _frame: object) -> None:
    """Let the bell ring: a signal that is ignored rings none."""
