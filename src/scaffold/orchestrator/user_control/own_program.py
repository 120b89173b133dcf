"""This program's own commands as child processes: what an interface does to a run is what its user would type."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import msgspec

from scaffold.core.errors import ScaffoldError, UsageError
from scaffold.core.ids import RunId
from scaffold.core.printable_text import utf8_safe
from scaffold.host.startup import importing

START_TIMEOUT_S = 300.0  # for a command that returns once the run is in the background
STOP_TIMEOUT_S = 90.0
IN_BACKGROUND = ("--yes", "--detach", "--json", "--quiet")
"""The flags of `run` and `resume` for a run that outlives whoever starts it."""
MAX_OUTPUT_BYTES = 4_000_000


class OwnProgram:
    """This program as a command; closing it waits for the commands that were begun."""

    def __init__(self, cwd: Path, argv: Sequence[str]) -> None:
        """`argv`: the program, without arguments; `cwd`: where commands run that are given no other folder."""
        self._cwd = cwd
        self._argv = tuple(argv)
        self._commands = asyncio.TaskGroup()

    async def __aenter__(self) -> Self:
        """Take commands from now on."""
        await self._commands.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        """Wait for the commands."""
        await self._commands.__aexit__(*error)  # type: ignore[arg-type] # the three values of any context

    async def output(self, words: Sequence[str], stdin: bytes, timeout_s: float, *, cwd: Path | None = None) -> str:
        """Return the standard output of a command; raises ProgramFailed with its error."""
        with importing():  # a screen is shown before its first command
            from scaffold.host.process.command_runner import OutputCapture, run_command
        argv, environ = [*self._argv, *words], dict(os.environ)
        output = OutputCapture(limit_bytes=MAX_OUTPUT_BYTES)
        running = self._commands.create_task(
            run_command(argv, cwd=cwd or self._cwd, env=environ, timeout_s=timeout_s, stdin=stdin, output=output)
        )
        # A caller that goes away must not cut a command off: a run would be left half started.
        done = await asyncio.shield(running)
        if done.exit_code == 0:
            return done.stdout.decode(errors="replace")
        if done.timed_out:
            what = f"this took longer than {timeout_s:.0f} s"
            raise ProgramFailed(what, "`scaffold status` shows what became of it.")
        lines = [line.strip() for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
        start = next((number for number, line in enumerate(lines) if line.startswith("error: ")), None)
        if start is None:
            last = lines[-1] if lines else "it printed nothing"
            raise ProgramFailed(f"the command ended with {done.exit_code}: {last}", "`scaffold status` shows the run.")
        raise ProgramFailed(
            lines[start].removeprefix("error: "), " ".join(lines[start + 1 :]) or "See `scaffold status`."
        )


class ProgramFailed(ScaffoldError):
    """One of our own commands failed, and explained why."""


async def start_run(program: OwnProgram, request: str, flags: Sequence[str]) -> RunId:
    """Start a run in the background, as `scaffold run --yes --detach` does, and return its id."""
    if not request.strip():
        raise UsageError("the request is empty", "Say what is to be done.")
    # On standard input: a request may be longer than a command line can be.
    words = ("run", *IN_BACKGROUND, *flags, "--spec", "-")
    return await _started_run(program, words, utf8_safe(request).encode())


async def resume_run(program: OwnProgram, run_id: RunId, flags: Sequence[str]) -> RunId:
    """Continue a run in the background, as `scaffold resume --detach` does."""
    words = ("resume", *IN_BACKGROUND, *flags, run_id)
    return await _started_run(program, words, b"")


async def halt_run_by_command(program: OwnProgram, command: str, run_id: RunId) -> str:
    """Pause or stop a run, as the command of that name does, and return what it says."""
    return (await program.output([command, run_id], b"", STOP_TIMEOUT_S)).strip()


def started_run_id(printed: str) -> RunId | None:
    """Return the run that a command with `--json` tells of in its result; None without a result."""
    for line in reversed(printed.splitlines()):  # the result comes last, after the events
        try:
            told = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
            if msgspec.json.decode(told.get("type", msgspec.Raw(b'""'))) == "result":
                return RunId(msgspec.json.decode(told["run"])["id"])
        except (msgspec.DecodeError, KeyError, TypeError):
            continue  # a line of another kind
    return None


async def _started_run(program: OwnProgram, words: Sequence[str], stdin: bytes) -> RunId:
    found = started_run_id(await program.output(words, stdin, START_TIMEOUT_S))
    if found is None:
        what = "the run was not started, and the command gave no reason"
        raise ProgramFailed(what, "Try `scaffold run` in a terminal.")
    return found
