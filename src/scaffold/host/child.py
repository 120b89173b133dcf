"""Children that live as long as we do, or shorter."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from scaffold.core.errors import ScaffoldError
from scaffold.core.model import ProcessIdentity
from scaffold.host.identity import alive, identify
from scaffold.host.process import Offspring, ends_within, signal_group

LEFTOVER_PATIENCE_S = 10.0


class Child:
    """A process in a session of its own, whose stdin is a pipe that ends when we do; see `lifeline`.

    Keep it: the lifeline is cut when this object is forgotten.
    """

    def __init__(self, process: Offspring, lifeline: BinaryIO) -> None:
        self._process = process
        self._lifeline = lifeline
        self.identity = identify(process.pid) or ProcessIdentity(process.pid, "", "")
        """Of a child that was gone before we could look: its pid, and words that fit no living process."""

    async def wait(self) -> int:
        """Return the exit code once it ended, or the number of the signal that ended it negated."""
        code = await self._process.wait()
        self._lifeline.close()
        return code

    def terminate(self) -> None:
        """Ask it and its group to end; nothing happens if it is gone."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it and its group; nothing happens if it is gone."""
        self._signal(signal.SIGKILL)

    async def end(self, grace_s: float) -> int:
        """Ask it to end, kill what is left of its group after `grace_s`, return like `wait`."""
        self.terminate()
        try:
            await ends_within(self._process, grace_s)
        finally:
            signal_group(self._process.pid, signal.SIGKILL)
        return await self.wait()

    def _signal(self, number: signal.Signals) -> None:
        if self._process.returncode is None:
            signal_group(self._process.pid, number)


async def start(
    argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], log: Path, passed: Collection[int] = ()
) -> Child:
    """Start `argv` with stdout and stderr appended to `log`, whose parents are created; OSError if that fails.

    It inherits the descriptors `passed`.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    source, hold = os.pipe()
    with contextlib.ExitStack() as undo, os.fdopen(source, "rb") as cut, log.open("ab") as sink:
        lifeline = undo.enter_context(os.fdopen(hold, "wb", buffering=0))
        process = await asyncio.create_subprocess_exec(  # noqa: TID251 - `host` starts processes
            *argv, cwd=cwd, env=env, stdin=cut, stdout=sink, stderr=sink, start_new_session=True, pass_fds=passed
        )
        undo.pop_all()
    return Child(process, lifeline)


async def end_leftover(identity: ProcessIdentity, *, patience_s: float = LEFTOVER_PATIENCE_S) -> None:
    """Kill a child of a parent that is dead, with its group if it leads one, and wait until it is gone.

    No error if it is gone already; ScaffoldError if it still lives after `patience_s` seconds.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience_s
    while alive(identity):
        if loop.time() >= deadline:
            raise ScaffoldError(
                f"process {identity.pid} still lives {patience_s:g} s after it was killed",
                f"look what holds it (`ps -o pid,user,stat,wchan {identity.pid}`), end it, then try again",
            )
        signal_group(identity.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(identity.pid, signal.SIGKILL)
        await asyncio.sleep(0.01)
