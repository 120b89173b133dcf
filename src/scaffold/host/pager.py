"""A program that shows long output a screen at a time, such as less."""

import contextlib
import shlex
import shutil
import signal
import subprocess  # noqa: TID251 - `host` starts processes
from collections.abc import Iterator, Mapping

CANDIDATES = ("less", "more")
"""What is used if the user names none."""
DEFAULTS = {"LESS": "FRX", "LV": "-c"}
"""Options that show colors, leave the screen as it was, and end at once if all fits; the user's own come first."""
NOT_RUN = frozenset({126, 127})
"""Exit codes of a shell that could not run the program."""


def pager_command(environ: Mapping[str, str]) -> str:
    """Return the command of the user's pager, as git finds it: GIT_PAGER, PAGER, else less or more; empty for none."""
    for name in ("GIT_PAGER", "PAGER"):
        if name in environ:
            chosen = environ[name].strip()
            return chosen if chosen != "cat" and _is_there(chosen, environ) else ""
    return next((name for name in CANDIDATES if _is_there(name, environ)), "")


def _is_there(command: str, environ: Mapping[str, str]) -> bool:
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    program = next((word for word in words if "=" not in word), "")
    return bool(program) and shutil.which(program, path=environ.get("PATH")) is not None


class Pager:
    """A running pager, which reads what is written to it and uses the terminal itself."""

    def __init__(self, command: str, environ: Mapping[str, str]) -> None:
        """Start it; raises OSError."""
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", command], stdin=subprocess.PIPE, env={**DEFAULTS, **environ}, text=False
        )
        self._is_open = True

    def write(self, text: bytes) -> None:
        """Hand text on; does nothing once the user has quit it."""
        if self._process.stdin is None or not self._is_open:
            return
        try:
            self._process.stdin.write(text)
            self._process.stdin.flush()
        except BrokenPipeError:
            self._is_open = False

    def wait(self) -> bool:
        """Say that this was all, and wait until the user quits it; return False if it could not be run at all."""
        # The pager handles Ctrl-C itself; we must not end before it does, or the shell and it would share the terminal.
        with _ignored(signal.SIGINT):
            if self._process.stdin is not None:
                with contextlib.suppress(BrokenPipeError):
                    self._process.stdin.close()
            return self._process.wait() not in NOT_RUN


@contextlib.contextmanager
def _ignored(number: signal.Signals) -> Iterator[None]:
    before = signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(number, before)
