"""Type a command at a terminal or in a pipe, and keep what it prints, the screen, and how it ends."""

import subprocess  # noqa: TID251 - commands are typed as users type them
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from support.terminal import Screen

LIMIT_S = 900.0
"""A command that takes longer is ended, and counts as one that hangs."""
HANGS = -1
"""The code of a command that did not end."""
PIPE = 0
"""The columns of a pipe."""
ROWS = 50
REFUSALS = (("[y/N]", "n"), ("[Y/n]", "n"))
"""The answers to questions that were not expected."""


class Record(Struct, frozen=True, kw_only=True):
    """One command as it was typed, and what came of it."""

    command: str
    columns: int
    """Of the terminal; PIPE for a pipe."""
    code: int
    """The exit code, or HANGS."""
    raw: str
    """Standard output and error as they came, with escape codes."""
    screen: str = ""
    """All lines of the terminal in the end, also those that scrolled away; empty for a pipe."""
    seconds: float


def record(
    command: str, *, columns: int, cwd: Path, environ: Mapping[str, str], answers: Sequence[tuple[str, str]] = ()
) -> Record:
    """Return what a shell command prints; `answers` are pairs of a question and what is typed then."""
    started, screen = time.monotonic(), ""
    if columns == PIPE:
        code, raw = _in_pipe(command, cwd, environ)
    else:
        code, raw, screen = _at_terminal(command, columns, cwd, environ, answers)
    seconds = time.monotonic() - started
    return Record(command=command, columns=columns, code=code, raw=raw, screen=screen, seconds=seconds)


def _in_pipe(command: str, cwd: Path, environ: Mapping[str, str]) -> tuple[int, str]:
    try:
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            cwd=cwd,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        return HANGS, (late.stdout or b"").decode(errors="replace")
    return done.returncode, done.stdout.decode(errors="replace")


def _at_terminal(
    command: str, columns: int, cwd: Path, environ: Mapping[str, str], answers: Sequence[tuple[str, str]]
) -> tuple[int, str, str]:
    argv = ["bash", "-o", "pipefail", "-c", command]
    screen = Screen(argv, cwd=cwd, env={**environ, "TERM": "xterm-256color"}, columns=columns, rows=ROWS)
    seen, end, code = 0, time.monotonic() + LIMIT_S, HANGS
    try:
        while more := screen.read():
            asked = screen.raw[seen:]
            if typed := next((typed for question, typed in (*answers, *REFUSALS) if question in asked), ""):
                screen.pause()  # what is typed too soon after a run's question is no answer
                seen = len(screen.raw)
                screen.type_line(typed)
            if time.monotonic() > end:
                break
        if not more:
            screen.child.wait()
            status, signal = screen.child.exitstatus, screen.child.signalstatus
            code = status if status is not None else -(signal or 0)
    finally:
        screen.stop()
    return code, screen.raw, screen.text
