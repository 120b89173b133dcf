"""The leash that a keeper holds its command by: two pipes, and the words spoken on them."""

import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from scaffold.host.sandbox.confinement import FREE, Limits

KEEPER = Path(__file__).with_name("keeper.py")
BEGIN = "import sys; sys.path.append(sys.argv[1].rpartition('/')[0]); import keeper; keeper.begin(sys.argv[2:])"
"""Python keeps what it has compiled of a module, not of a script."""


class Leash:
    """Our side of one keeper. While `hold` is open the command may run; no other process has a copy of it."""

    def __init__(self, argv: Sequence[str], limits: Limits = FREE, held: Sequence[Path] = ()) -> None:
        self._program = argv[0]
        self.crowded = False
        """Whether the command had more descendants than `limits` say; known once `code` was asked."""
        self._tied, self._hold = _pipe()
        self._report, self._pen = _pipe()
        self.passed = (self._tied.fileno(), self._pen.fileno())
        """The descriptors that the keeper must inherit."""
        numbers = (*self.passed, limits.processes, limits.memory_bytes, limits.file_bytes, len(held))
        self.argv = (sys.executable, "-I", "-S", "-c", BEGIN, str(KEEPER), *map(str, (*numbers, *held)), *argv)
        """What to start instead of the command; the places `held` stay as they are while it runs."""

    def hand_over(self) -> None:
        """Close our copies of the keeper's ends, once it was started."""
        self._tied.close()
        self._pen.close()

    def begin(self) -> None:
        """Have the keeper start the command; one that was ended before that has started nothing."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._hold.fileno(), b"\n")

    def cut(self) -> None:
        """Have the keeper kill everything; safe to repeat."""
        self._hold.close()

    def code(self) -> int:
        """Return the command's exit code, or its signal negated, once the keeper ended.

        Raises OSError if the command could not be started. A keeper that was killed itself counts as its command, and
        what is left of the command's process group is killed: nobody else would.
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
        """Cut the leash and close the rest; safe to repeat."""
        for end in (self._hold, self._tied, self._pen, self._report):
            end.close()


def _pipe() -> tuple[BinaryIO, BinaryIO]:
    reading, writing = os.pipe()
    return os.fdopen(reading, "rb"), os.fdopen(writing, "wb")
