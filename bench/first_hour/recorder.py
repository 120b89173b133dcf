"""Type a command at a terminal or in a pipe, and keep what it prints and how it ends."""

import re
import subprocess  # noqa: TID251 - commands are typed as users type them
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pexpect
from msgspec import Struct

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
    seconds: float


def record(
    command: str, *, columns: int, cwd: Path, environ: Mapping[str, str], answers: Sequence[tuple[str, str]] = ()
) -> Record:
    """Return what a shell command prints; `answers` are pairs of a question's pattern and what is typed then."""
    started = time.monotonic()
    if columns == PIPE:
        code, raw = _in_pipe(command, cwd, environ)
    else:
        code, raw = _at_terminal(command, columns, cwd, environ, answers)
    return Record(command=command, columns=columns, code=code, raw=raw, seconds=time.monotonic() - started)


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
) -> tuple[int, str]:
    child = pexpect.spawn(
        "bash",
        ["-o", "pipefail", "-c", command],
        cwd=str(cwd),
        env={**environ, "TERM": "xterm-256color"},
        dimensions=(ROWS, columns),
        encoding="utf-8",
        codec_errors="replace",
        echo=False,
        timeout=LIMIT_S,
    )
    said = list[str]()
    known = [*answers, *REFUSALS]
    questions = [pexpect.EOF, *(f"{re.escape(question)}:? ?" for question, _ in known)]
    try:
        while (found := child.expect(questions)) > 0:
            said += [child.before or "", str(child.after), "\n"]  # the end of the line is what a terminal would echo
            child.sendline(known[found - 1][1])
        said.append(child.before or "")
        child.wait()
    except pexpect.TIMEOUT:
        said.append(child.before or "")
        child.close(force=True)
        return HANGS, "".join(said)
    child.close()
    return child.exitstatus if child.exitstatus is not None else -(child.signalstatus or 0), "".join(said)
