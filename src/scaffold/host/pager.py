"""A program that shows long output a screen at a time, such as less."""

import contextlib
import os
import re
import shutil
import signal
import subprocess  # noqa: TID251 - `host` starts processes
import sys
import termios
import threading
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from msgspec import Struct

from scaffold.host.child_environment import path_outside

CANDIDATES = ("less", "more")
"""What is used if the user names none."""
DEFAULTS = {"LESS": "FRX", "LV": "-c"}
"""Options that show colors, leave the screen as it was, and end at once if all fits; the user's own come first."""
SHELL = "/bin/sh"
PLAIN_COMMAND = re.compile(r"(?!(exec|command|eval) )[\w./+-]+( +[\w./+:,=@%-]+)*")
"""A program and its arguments, without anything that a shell would interpret."""
END_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
NOT_RUN = frozenset({126, 127})
"""Exit codes of a shell that could not run the program."""


class PagerCommand(Struct, frozen=True):
    """The command of a pager, for a shell, and its environment."""

    command: str
    environ: Mapping[str, str]


def find_pager(environ: Mapping[str, str], folder: Path) -> PagerCommand | None:
    """Return the user's pager: GIT_PAGER, else PAGER, else less or more; None for none, and for `cat`.

    What the user names is any command of a shell, as for git; whether it can be run, `Pager.wait` tells. Programs in
    `folder`, or in the checkouts around it, are not run, because an agent may have written them. Raises OSError.
    """
    own = {**DEFAULTS, **environ, "PATH": path_outside(environ, folder)}
    named = next((environ[name].strip() for name in ("GIT_PAGER", "PAGER") if name in environ), None)
    if named is None:
        found = next((name for name in CANDIDATES if shutil.which(name, path=own["PATH"])), None)
        return PagerCommand(found, own) if found is not None else None
    if named in {"", "cat"}:
        return None
    # Asked before, as the exit code of a command that the shell cannot read is one that pagers use, too.
    is_readable = subprocess.run([SHELL, "-n", "-c", named], stdin=subprocess.DEVNULL, check=False).returncode == 0
    return PagerCommand(named, own) if is_readable else None


class Pager:
    """A running pager, which reads what is written to it and uses the terminal itself."""

    def __init__(self, pager: PagerCommand) -> None:
        """Start it; raises OSError."""
        self._terminal: list[Any] | None = None
        with contextlib.suppress(termios.error, OSError, ValueError):
            self._terminal = termios.tcgetattr(sys.__stdout__.fileno()) if sys.__stdout__ else None
        # Without a shell in between, which would not pass a signal on.
        direct = "exec " if PLAIN_COMMAND.fullmatch(pager.command) else ""
        argv = [SHELL, "-c", f"{direct}{pager.command}"]
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, env=pager.environ, text=False)
        self._is_open = True
        self._ended_by: int | None = None
        # These would end us and leave the pager behind; elsewhere than in the main thread the caller stops it.
        is_main = threading.current_thread() is threading.main_thread()
        ours = [each for each in END_SIGNALS if is_main and signal.getsignal(each) == signal.SIG_DFL]

        def end_both(number: int, _: FrameType | None) -> None:
            self._ended_by = number
            self.stop()

        for each in ours:
            signal.signal(each, end_both)
        self._caught = tuple(ours)

    def stop(self) -> None:
        """Let it end at once; `wait` returns then."""
        self._process.terminate()

    def write(self, text: bytes) -> bool:
        """Hand text on; return False if the pager did not take all of it, because it has ended."""
        if self._process.stdin is None or not self._is_open:
            return False
        try:
            self._process.stdin.write(text)
            self._process.stdin.flush()
        except BrokenPipeError:
            self._is_open = False
        return self._is_open

    def wait(self) -> bool:
        """Say that this was all, and wait until the user quits it; return False if it could not be run at all."""
        # The pager handles Ctrl-C itself; we must not end before it does, or the shell and it would share the terminal.
        # Elsewhere than in the main thread the caller sees to that.
        is_main = threading.current_thread() is threading.main_thread()
        before = signal.signal(signal.SIGINT, signal.SIG_IGN) if is_main else None
        try:
            if self._process.stdin is not None:
                with contextlib.suppress(BrokenPipeError):
                    self._process.stdin.close()
            return self._process.wait() not in NOT_RUN
        finally:
            if before is not None:
                signal.signal(signal.SIGINT, before)
            for each in self._caught:
                signal.signal(each, signal.SIG_DFL)
            self._restore_terminal()
            if self._ended_by is not None:
                os.kill(os.getpid(), self._ended_by)

    def _restore_terminal(self) -> None:
        # A pager that was killed leaves it without echo.
        if self._terminal is not None and sys.__stdout__ and self._process.returncode != 0:
            with contextlib.suppress(termios.error, OSError, ValueError):
                termios.tcsetattr(sys.__stdout__.fileno(), termios.TCSADRAIN, self._terminal)
