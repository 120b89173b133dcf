"""The pipes to a child process: its output in bounded memory, and the protocol of its reaper."""

import asyncio
import contextlib
import hashlib
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

from scaffold.host.sandbox.confinement import UNCONFINED_LIMITS, ResourceLimits

READ_BYTES = 65536
REAPER_SCRIPT = Path(__file__).with_name("reaper.py")
# Appended, so that no module in the reaper's folder can shadow one of the standard library.
BOOTSTRAP = "import sys; sys.path.append(sys.argv[1].rpartition('/')[0]); "
"""Scripts are imported as modules, because Python caches the bytecode of modules but not of scripts."""


def interpreter(script: Path, call: str) -> tuple[str, ...]:
    """Return the command that starts Python with a script of the standard library alone, and calls a function of it."""
    # -I and -S: nothing is imported from the working directory or site-packages, and the start takes less time.
    code = f"{BOOTSTRAP}import {script.stem}; {script.stem}.{call}"
    return (sys.executable, "-I", "-S", "-c", code, str(script))


class OutputSink(Protocol):
    """A consumer of output as it arrives."""

    def write(self, data: bytes, /) -> object:
        """Consume all of `data`; OSError on failure."""


class HeadTailBuffer:
    """The head and tail of a byte stream, and the hash of the whole stream."""

    def __init__(self, limit_bytes: int) -> None:
        self._head_limit = limit_bytes // 2
        self._tail_limit = limit_bytes - self._head_limit
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0
        """Bytes added so far."""
        self._sha256 = hashlib.sha256()

    def add(self, data: bytes) -> None:
        """Add the next bytes of the stream."""
        self.total += len(data)
        self._sha256.update(data)
        room = self._head_limit - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        # Cutting the tail to size for each piece would copy it each time.
        if len(self._tail) > 2 * self._tail_limit + READ_BYTES:
            self._trim_tail()

    @property
    def left_out(self) -> int:
        """The number of bytes omitted between head and tail."""
        return max(0, self.total - self._head_limit - self._tail_limit)

    @property
    def sha256(self) -> str:
        """The hash of the whole stream, in hex."""
        return self._sha256.hexdigest()

    def content(self) -> bytes:
        """Return the whole stream if it fits the limit, else head and tail with a line between that counts the rest."""
        self._trim_tail()
        between = f"\n... {self.left_out} bytes omitted ...\n".encode() if self.left_out else b""
        return bytes(self._head + between + self._tail)

    def _trim_tail(self) -> None:
        del self._tail[: max(0, len(self._tail) - self._tail_limit)]


class OutputPipe:
    """A pipe: a command writes to `entrance`, the running event loop reads into `excerpt`."""

    def __init__(self, limit_bytes: int, sink: OutputSink | None) -> None:
        self.excerpt = HeadTailBuffer(limit_bytes)
        self.error: OSError | None = None
        """Why a write to `sink` failed; None if none did."""
        self._sink = sink
        self._exit, entrance = os.pipe()
        self.entrance = os.fdopen(entrance, "wb", buffering=0)
        os.set_blocking(self._exit, False)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._exit, self._read_chunk)
        self.closed: asyncio.Future[None] = self._loop.create_future()

    def take(self, data: bytes) -> None:
        """Treat `data` as if the command had written it."""
        self.excerpt.add(data)
        if self._sink:
            self._sink.write(data)

    def close(self) -> None:
        """Stop reading; safe to repeat."""
        self.entrance.close()
        if not self.closed.done():
            self._loop.remove_reader(self._exit)
            os.close(self._exit)
            self.closed.set_result(None)

    def _read_chunk(self) -> None:
        try:
            data = os.read(self._exit, READ_BYTES)
        except BlockingIOError:
            return
        try:
            self.take(data)
        except OSError as error:
            self.error = error
            data = b""
        if not data:
            self.close()


class ReaperPipe:
    """Our side of one reaper. The command may run while the write end `_hold` is open; only we have it."""

    def __init__(
        self,
        argv: Sequence[str],
        limits: ResourceLimits = UNCONFINED_LIMITS,
        held: Sequence[Path] = (),
        *,
        wrapped: bool = False,
    ) -> None:
        """Take what the reaper is to run; `wrapped` if the first process only holds a sandbox, which ends with it."""
        self._program = argv[0]
        self.too_many_processes = False
        """True if the command had more descendants than `limits` allow; valid after `code` returned."""
        self._tied, self._hold = _open_pipe()
        self._report, self._pen = _open_pipe()
        self._reported = b""
        self.passed = (self._tied.fileno(), self._pen.fileno())
        """The descriptors that the reaper must inherit; the last one is that of its report."""
        numbers = (*self.passed, *(limits.processes, limits.memory_bytes, limits.file_bytes), int(wrapped), len(held))
        self.words = (*map(str, (*numbers, *held)), *argv)
        """The reaper's arguments."""
        self.argv = (*interpreter(REAPER_SCRIPT, "run_argv(sys.argv[2:])"), *self.words)
        """Starts the reaper, which runs the command and guards the paths `held` meanwhile."""

    @property
    def report(self) -> int:
        """Return the descriptor to read the report from."""
        return self._report.fileno()

    @property
    def pid(self) -> int:
        """Return the pid that a forked reaper has reported so far; 0 if it has not."""
        match self._reported.split():
            case [b"reaper", pid, *_]:
                return int(pid)
            case _:
                return 0

    def read_report(self) -> bool:
        """Read some of the report, which must be readable; return True at its end."""
        piece = os.read(self.report, READ_BYTES)
        self._reported += piece
        return not piece

    def hand_over(self) -> None:
        """Close our copies of the reaper's ends, once it was started."""
        self._tied.close()
        self._pen.close()

    def begin(self) -> None:
        """Tell the reaper to start the command; a reaper that was ended before has started nothing."""
        if self._hold.closed:
            return
        with contextlib.suppress(BrokenPipeError):
            os.write(self._hold.fileno(), b"\n")

    def terminate(self) -> None:
        """Make the reaper send SIGTERM to the command's process group, if wrapped to what is inside of the sandbox.

        Does nothing after the command ended.
        """
        if not self._hold.closed:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._hold.fileno(), b"\n")

    def cut(self) -> None:
        """Make the reaper kill everything; safe to repeat."""
        self._hold.close()

    def code(self) -> int:
        """Return the command's exit code, or its negated signal; call it after the reaper ended.

        Raises OSError if the command could not be started. If the reaper itself was killed, kill the command's process
        group, which no process would end otherwise, and report SIGKILL.
        """
        while not self.read_report():
            pass
        words = self._reported.split()
        match words[2:] if words[:1] == [b"reaper"] else words:
            case [b"began", _, b"status" | b"too-many" as word, status]:
                self.too_many_processes = word == b"too-many"
                return os.waitstatus_to_exitcode(int(status))
            case [b"error", number]:
                raise OSError(int(number), os.strerror(int(number)), self._program)
            case [b"began", group]:
                # The command leads its own session, so the end of its reaper does not end it.
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(int(group), signal.SIGKILL)
                return -signal.SIGKILL
            case _:
                return -signal.SIGKILL

    def close(self) -> None:
        """Close all ends, which ends the command; safe to repeat."""
        for end in (self._hold, self._tied, self._pen, self._report):
            end.close()


def _open_pipe() -> tuple[BinaryIO, BinaryIO]:
    reading, writing = os.pipe()
    return os.fdopen(reading, "rb"), os.fdopen(writing, "wb")
