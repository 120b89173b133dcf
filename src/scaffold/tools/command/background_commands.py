"""Commands in the background: each runs until it ends or is stopped, at most as long as its session or worker."""

import asyncio
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from msgspec import Struct

from scaffold.core.tool import Tool, ToolOutput
from scaffold.host.process.command_runner import CommandControl, CommandResult, Containment, OutputCapture, run_command
from scaffold.tools.arguments import object_schema
from scaffold.tools.command.spooled_output import CommandSpec, describe_exit
from scaffold.tools.workspace import MAX_ANSWER_CHARS, failed_answer

MAX_RUNNING = 8
MAX_KEPT = 50
"""The most commands whose output is kept."""
MAX_RUN_S = 24 * 3600.0
MAX_WAIT_S = 600.0

AfterEnd = Callable[[], Sequence[str]]
"""Called when a command has ended; returns lines for the end of its output."""


class BackgroundLimits(Struct, frozen=True, kw_only=True):
    """The limits of each command."""

    output_bytes: int = 64 << 20
    """Of its output; the rest is discarded."""
    term_grace_s: float = 3.0
    """Seconds between SIGTERM and the kill of everything that it started."""


DEFAULT_LIMITS = BackgroundLimits()


class _Log:
    """The output of one command, in a file without a name, which only this process reads and which ends with it."""

    def __init__(self, folder: Path, limit_bytes: int, on_output: Callable[[], object]) -> None:
        self._limit_bytes = limit_bytes
        folder.mkdir(parents=True, exist_ok=True)
        self._file: BinaryIO = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - open as long as we are
        self._on_output = on_output
        self.total = self.kept = 0
        """Bytes received, and the first of them that are kept."""

    def write(self, data: bytes, /) -> None:
        """Append the next bytes; from the first one on that the limit or the disk has no room for, all are lost."""
        if self.kept == self.total:
            with suppress(OSError):
                self.kept += os.pwrite(self._file.fileno(), data[: self._limit_bytes - self.kept], self.kept)
        self.total += len(data)
        self._on_output()

    def close(self) -> None:
        """Give up the output."""
        self._file.close()

    def read(self, offset: int, *, ended: bool) -> tuple[str, int]:
        """Return whole lines from a byte on, and the offset after them.

        Of a running command the last line may be incomplete; so that no secret is read in two parts, it is left out.
        """
        data = os.pread(self._file.fileno(), MAX_ANSWER_CHARS, offset)
        if not ended or offset + len(data) < self.kept:
            data = data[: data.rfind(b"\n") + 1] or (data if len(data) == MAX_ANSWER_CHARS else b"")
        return data.decode(errors="replace"), offset + len(data)


class _BackgroundCommand:
    """One command and its output so far."""

    def __init__(self, spec: CommandSpec, folder: Path, limits: BackgroundLimits, after: AfterEnd) -> None:
        self._clock = asyncio.get_running_loop().time
        self._started = self._clock()
        self._control = CommandControl()
        self._stopped = False
        self._grace_s = limits.term_grace_s
        self.log = _Log(folder, limits.output_bytes, spec.on_output)
        self.task = asyncio.create_task(self._run_to_end(spec, after))

    @property
    def state(self) -> str:
        """What it does, or how it ended."""
        if not self.task.done():
            return f"running for {self._clock() - self._started:.1f} s"
        if self.task.cancelled():
            return "stopped: it was killed with all that it started"
        return f"stopped: {describe_exit(self.task.result())}" if self._stopped else describe_exit(self.task.result())

    async def stop(self) -> None:
        """Send SIGTERM, and after a grace kill all that it started."""
        self._stopped = True
        if self._control.terminate():
            await asyncio.wait([self.task], timeout=self._grace_s)
        await self.kill()

    async def kill(self) -> None:
        """Kill all that it started."""
        self.task.cancel()
        await asyncio.wait([self.task])

    async def _run_to_end(self, spec: CommandSpec, after: AfterEnd) -> CommandResult:
        try:
            return await run_command(
                spec.argv,
                cwd=spec.cwd,
                env=spec.env,
                timeout_s=MAX_RUN_S,
                output=OutputCapture(limit_bytes=0, sinks=(self.log, self.log), one_stream=True),
                containment=Containment(sandbox=spec.sandbox, control=self._control),
            )
        finally:
            for line in after():
                self.log.write(f"--- {line}\n".encode())


class BackgroundCommands:
    """The background commands of an agent; they end with `end_all`, and with this process, however that ends."""

    def __init__(self, folder: Path, limits: BackgroundLimits = DEFAULT_LIMITS) -> None:
        """`folder` is on the disk that takes their output; it need not exist."""
        self._folder = folder
        self._limits = limits
        self._commands: dict[str, _BackgroundCommand] = {}
        self._started = 0

    def start(self, spec: CommandSpec, after: AfterEnd) -> ToolOutput:
        """Start a command, and return its name."""
        running = [name for name, each in self._commands.items() if not each.task.done()]
        if len(running) >= MAX_RUNNING:
            return failed_answer(f"{len(running)} commands run already ({', '.join(running)}); stop one first.")
        try:
            command = _BackgroundCommand(spec, self._folder, self._limits, after)
        except OSError as error:
            return failed_answer(f"Its output cannot be kept ({error.strerror}); run it without `background`.")
        self._started += 1
        name = f"bg-{self._started}"
        self._commands[name] = command
        for old in [each for each in self._commands if each not in running and each != name][:-MAX_KEPT]:
            self._commands.pop(old).log.close()
        return ToolOutput(f"{name} runs in the background. `background` shows its output, waits for it and stops it.")

    async def act(self, args: Mapping[str, Any]) -> ToolOutput:
        """Do what a call of the tool asks for."""
        if "id" not in args:
            listed = [f"{name}: {each.state}" for name, each in self._commands.items()]
            return ToolOutput("\n".join(listed) or "No command was started in the background.")
        command = self._commands.get(args["id"])
        if command is None:
            return failed_answer(f"There is no {args['id']!r}, or no longer; without `id` all are listed.")
        if args.get("stop"):
            await command.stop()
        elif wait_s := min(args.get("wait_s", 0), MAX_WAIT_S):
            await asyncio.wait([command.task], timeout=wait_s)
        ended = command.task.done()
        text, after = command.log.read(args.get("offset", 0), ended=ended)
        rest, lost = command.log.kept - after, command.log.total - command.log.kept
        lines = [
            f"{command.state}; next offset {after}" + (f", {rest} bytes more" if rest > 0 else ""),
            *([f"output after the first {command.log.kept} bytes was not kept"] if lost else []),
            *([f"--- output\n{text.rstrip()}"] if text.strip() else []),
        ]
        return ToolOutput("\n".join(lines))

    async def end_all(self) -> None:
        """Kill all that still run, and forget all of them."""
        while self._commands:
            _, command = self._commands.popitem()
            await command.kill()
            command.log.close()


def background(commands: BackgroundCommands) -> Tool:
    """Return the tool that shows, awaits and stops background commands."""
    return Tool(
        name="background",
        description="List commands started with shell's `background`; with `id`, read one's output, await or stop it.",
        schema=object_schema(
            {},
            id={"type": "string", "description": "Its name, such as bg-1."},
            offset={"type": "integer", "minimum": 0, "description": "First byte to read; default 0."},
            wait_s={"type": "number", "minimum": 0, "description": "Seconds to wait for its end."},
            stop={"type": "boolean", "description": "End it: SIGTERM, then SIGKILL."},
        ),
        category="memory",
        run=commands.act,
    )
