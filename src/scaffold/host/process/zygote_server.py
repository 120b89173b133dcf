"""The zygote's side: fork on request and report how the children end.

Forking a process that has imported everything takes milliseconds, and its memory is shared until written to. To be
safe to fork, the zygote has one thread and no event loop, opens nothing, and does nothing else. See `zygote_client` for
the other side.
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
from scaffold.host.process_identity import identify

MAX_MESSAGE_BYTES = 65_536
"""Limit of one message."""


class ForkRequest(Struct, frozen=True, tag="fork"):
    """Request for a child; the descriptors of its stdin and log are sent with it, in this order."""

    number: int
    """The request's number, repeated in all replies about the child."""
    main: str
    """The name of the child's main function, known to both sides."""
    argument: str


class ExitAck(Struct, frozen=True, tag="ack"):
    """The client knows that a child exited: the zygote may reap it, which frees its pid."""

    number: int


ServerMessage = ForkRequest | ExitAck


class Forked(Struct, frozen=True, tag="forked"):
    """A child was forked."""

    number: int
    identity: ProcessIdentity


class ForkFailed(Struct, frozen=True, tag="failed"):
    """fork failed with this errno."""

    number: int
    errno: int


class ChildExited(Struct, frozen=True, tag="exited"):
    """A child exited."""

    number: int
    code: int
    """Exit code, or negated signal."""


ForkReply = Forked | ForkFailed | ChildExited


class ForkSpec(Struct, frozen=True):
    """What a forked child has to run."""

    main: str
    argument: str


def serve(line: socket.socket) -> ForkSpec | None:
    """Fork on each request from `line`; return the child's task in each child, and None here once `line` is closed.

    In a child, stdin, stdout and stderr are the received descriptors, it leads its own session, and `line` is closed.
    Call it in a single-threaded process, after importing everything that children share.
    """
    if threading.active_count() > 1:
        raise RuntimeError("a process with several threads cannot be forked safely")
    gc.collect()
    gc.freeze()  # the collector writes to objects it scans; frozen ones stay shared
    return _ForkServer(line).serve()


class _ForkServer:
    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._living: dict[int, int] = {}
        """Request number of each running child, by pid."""
        self._ended: dict[int, int] = {}
        """Pid of each exited and reported but not yet reaped child, by request number."""
        self._wake, self._bell = os.pipe()
        os.set_blocking(self._bell, False)

    def serve(self) -> ForkSpec | None:
        """Serve requests until the line is closed, as `serve` describes."""
        signal.signal(signal.SIGCHLD, _on_sigchld)
        signal.set_wakeup_fd(self._bell, warn_on_full_buffer=False)
        while True:
            ready, _, _ = select.select([self._line.fileno(), self._wake], [], [])
            if self._wake in ready:
                os.read(self._wake, 512)
                self._look_after()
            if self._line.fileno() in ready:
                # The line is a SOCK_SEQPACKET socket: one receive returns exactly one message.
                try:
                    message, descriptors, _, _ = socket.recv_fds(self._line, MAX_MESSAGE_BYTES, 2)
                except ConnectionResetError:
                    return None  # the client died before it had read all our replies
                if not message:
                    return None
                match decode(message, type=ServerMessage):
                    case ForkRequest() as request:
                        if spec := self._fork_child(request, descriptors):
                            return spec
                    case ExitAck(number=number):
                        os.waitpid(self._ended.pop(number), 0)

    def _fork_child(self, request: ForkRequest, descriptors: list[int]) -> ForkSpec | None:
        """Fork; return the child's task in the child, None in the zygote."""
        for stream in (sys.stdout, sys.stderr):
            stream.flush()  # buffered output would be written by both processes
        try:
            pid = os.fork()
        except OSError as error:
            self._send_reply(ForkFailed(request.number, error.errno or 0))
            pid = -1
        if pid == 0:
            os.setsid()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            stdin, log = descriptors
            os.dup2(stdin, 0)
            os.dup2(log, 1)
            os.dup2(log, 2)
            for descriptor in {stdin, log, self._wake, self._bell} - {0, 1, 2}:
                os.close(descriptor)
            self._line.close()
            return ForkSpec(request.main, request.argument)
        for descriptor in descriptors:
            os.close(descriptor)
        if pid > 0:
            # An early exit is reported by a later round of `serve`, so the client always gets `Forked` first.
            self._living[pid] = request.number
            self._send_reply(Forked(request.number, identify(pid) or ProcessIdentity(pid, "", "")))
        return None

    def _look_after(self) -> None:
        # Not reaped: they keep their pids until the client acknowledges.
        # Pending SIGCHLDs merge into one, so each wake-up may stand for several children.
        for pid in list(self._living):
            ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended:
                number = self._living.pop(pid)
                self._ended[number] = pid
                code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
                self._send_reply(ChildExited(number, code))

    def _send_reply(self, reply: ForkReply) -> None:
        try:
            self._line.send(encode(reply))
        except (BrokenPipeError, ConnectionResetError):
            return  # the client is gone; the line will close


def _on_sigchld(_number: int, _frame: object) -> None:
    """Do nothing: with a handler, unlike an ignored signal, the wake-up descriptor fires."""
