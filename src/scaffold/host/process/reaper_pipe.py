"""The two pipes between us and a reaper process, and their protocol."""

import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from scaffold.host.sandbox.confinement import UNCONFINED_LIMITS, ResourceLimits

REAPER_SCRIPT = Path(__file__).with_name("reaper.py")
BOOTSTRAP = "import sys; sys.path.append(sys.argv[1].rpartition('/')[0]); import reaper; reaper.run_argv(sys.argv[2:])"
"""Imported as a module, because Python caches the bytecode of modules but not of scripts."""


class ReaperPipe:
    """Our side of one reaper. The command may run while the write end `_hold` is open; only we have it."""

    def __init__(
        self, argv: Sequence[str], limits: ResourceLimits = UNCONFINED_LIMITS, held: Sequence[Path] = ()
    ) -> None:
        self._program = argv[0]
        self.crowded = False
        """True if the command had more descendants than `limits` allow; valid after `code` returned."""
        self._tied, self._hold = _pipe()
        self._report, self._pen = _pipe()
        self.passed = (self._tied.fileno(), self._pen.fileno())
        """The descriptors that the reaper must inherit."""
        numbers = (*self.passed, limits.processes, limits.memory_bytes, limits.file_bytes, len(held))
        self.argv = (
            sys.executable,
            "-I",
            "-S",
            "-c",
            BOOTSTRAP,
            str(REAPER_SCRIPT),
            *map(str, (*numbers, *held)),
            *argv,
        )
        """Starts the reaper, which runs the command and guards the paths `held` meanwhile."""

    def hand_over(self) -> None:
        """Close our copies of the reaper's ends, once it was started."""
        self._tied.close()
        self._pen.close()

    def begin(self) -> None:
        """Tell the reaper to start the command; a reaper that was ended before has started nothing."""
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
        match self._report.read().split():
            case [b"began", _, b"status" | b"crowd" as word, status]:
                self.crowded = word == b"crowd"
                return os.waitstatus_to_exitcode(int(status))
            case [b"error", number]:
                raise OSError(int(number), os.strerror(int(number)), self._program)
            case [b"began", group]:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(int(group), signal.SIGKILL)
                return -signal.SIGKILL
            case _:
                return -signal.SIGKILL

    def close(self) -> None:
        """Close all ends, which ends the command; safe to repeat."""
        for end in (self._hold, self._tied, self._pen, self._report):
            end.close()


def _pipe() -> tuple[BinaryIO, BinaryIO]:
    reading, writing = os.pipe()
    return os.fdopen(reading, "rb"), os.fdopen(writing, "wb")
