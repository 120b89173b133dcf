"""A contained process that is talked to through its standard streams for as long as it lives."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from scaffold.host.process.command_runner import CommandControl, CommandResult, Containment, OutputCapture, run_command
from scaffold.host.process.pipes import OutputSink
from scaffold.host.sandbox.confinement import SandboxSpec


class PipedCommand(Struct, frozen=True, kw_only=True):
    """What is started."""

    argv: Sequence[str]
    cwd: Path
    env: Mapping[str, str]
    sandbox: SandboxSpec | None = None


class PipedProcess:
    """A process with a pipe to its standard input. All that it starts ends with it, and with this process."""

    def __init__(
        self, command: PipedCommand, stdout: OutputSink, stderr: OutputSink, ended: Callable[[CommandResult], object]
    ) -> None:
        """Start it; the sinks receive what it writes, and `ended` is called once, unless it is killed first."""
        self._stdin, self._entrance = os.pipe()
        os.set_blocking(self._entrance, False)
        self._control = CommandControl()
        self._task = asyncio.create_task(
            run_command(
                command.argv,
                cwd=command.cwd,
                env=command.env,
                timeout_s=None,
                stdin=self._stdin,
                output=OutputCapture(limit_bytes=0, sinks=(stdout, stderr)),
                containment=Containment(sandbox=command.sandbox, control=self._control),
            )
        )
        self._ended = ended
        self._task.add_done_callback(self._close_pipe)

    async def send(self, data: bytes) -> None:
        """Write all of `data` to its standard input, however slowly it reads. Raises OSError if it has ended.

        After a cancellation it is unknown how much was written.
        """
        rest = memoryview(data)
        while rest:
            if self._task.done():
                raise BrokenPipeError
            try:
                rest = rest[os.write(self._entrance, rest) :]
            except BlockingIOError:
                # Until the pipe takes more, or the process has ended.
                loop, room = asyncio.get_running_loop(), asyncio.Event()
                loop.add_writer(self._entrance, room.set)
                waiting = asyncio.create_task(room.wait())
                try:
                    await asyncio.wait([waiting, self._task], return_when=asyncio.FIRST_COMPLETED)
                finally:
                    waiting.cancel()
                    if not self._task.done():
                        loop.remove_writer(self._entrance)

    async def end_input(self, seconds: float) -> None:
        """Close its standard input, and wait at most `seconds` for it to end because of that; nothing can be sent then.

        It is how many programs learn that they are done, and the one way to their own exit code.
        """
        self._close_entrance()
        await asyncio.wait([self._task], timeout=seconds)

    async def end(self, grace_s: float) -> None:
        """Send SIGTERM to its process group; after at most `grace_s`, kill it and all that it started."""
        if not self._task.done() and self._control.terminate():
            await asyncio.wait([self._task], timeout=grace_s)
        await self.kill()

    async def kill(self) -> None:
        """Kill it and all that it started, and wait for that."""
        self.cut()
        await asyncio.wait([self._task])

    def cut(self) -> None:
        """Kill it and all that it started; safe to repeat."""
        self._task.cancel()

    def _close_entrance(self) -> None:
        if self._entrance >= 0:
            asyncio.get_running_loop().remove_writer(self._entrance)
            os.close(self._entrance)
            self._entrance = -1

    def _close_pipe(self, task: asyncio.Task[CommandResult]) -> None:
        # Here and not in the task: one that is cancelled before it begins runs no `finally`.
        self._close_entrance()
        os.close(self._stdin)
        if not task.cancelled() and task.exception() is None:
            self._ended(task.result())
