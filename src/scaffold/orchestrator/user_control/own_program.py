"""Run this program's own commands for a server: a client has exactly what a user at a terminal has."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from scaffold.core.errors import ScaffoldError
from scaffold.host.process.command_runner import OutputCapture, run_command

STOP_TIMEOUT_S = 90.0
OUTPUT = OutputCapture(limit_bytes=4_000_000)


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
        argv, environ = [*self._argv, *words], dict(os.environ)
        running = self._commands.create_task(
            run_command(argv, cwd=cwd or self._cwd, env=environ, timeout_s=timeout_s, stdin=stdin, output=OUTPUT)
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
