"""The lines that a program and we exchange: one JSON object each, on its standard streams."""

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from scaffold.core.printable_text import short_line
from scaffold.extensions.program_output import CallbackSink, LineReader, ProtocolBroken, TooLong, exit_reason
from scaffold.host.process.command_runner import CommandResult
from scaffold.host.process.piped_process import PipedCommand, PipedProcess

MAX_MESSAGE_BYTES = 64 << 20
"""Of one line: programs repeat whole files and conversations."""
MAX_STDERR_BYTES = 4_000
MAX_REASON_CHARS = 500
STOP_GRACE_S = 2.0
"""How long a program has to end by itself after its turn."""
Line = dict[str, Any]


class ProgramBroken(Exception):
    """The program ended, or said what its protocol does not allow, before its turn had a result."""


class StartHung(Exception):
    """The program sent no message within the time that a start may take."""


class ProgramLines:
    """A running program. What it writes is never trusted: a line that is not an object is passed on as a notice."""

    def __init__(self, command: PipedCommand, notice: Callable[[str], object], *, start_s: float) -> None:
        """Start it; `notice` receives lines that are not messages, `start_s` limits the wait for the first message."""
        self._notice = notice
        self._start_s: float | None = start_s
        self.is_silent = True
        """Whether it has written nothing at all to its standard output."""
        self._reader = LineReader(MAX_MESSAGE_BYTES, MAX_MESSAGE_BYTES)
        self._received: asyncio.Queue[Line | None] = asyncio.Queue()
        self._stderr = b""
        self._broken = ""
        self.exit_code: int | None = None
        """None while it runs, and after it was killed."""
        self._process = PipedProcess(
            command, CallbackSink(self._take_output), CallbackSink(self._take_error), self._note_end
        )

    async def send(self, message: Mapping[str, Any]) -> None:
        """Write one message; ProgramBroken if the program has ended."""
        try:
            data = msgspec.json.encode(message)
        except UnicodeEncodeError:  # a name of a file that is not UTF-8, for instance
            data = json.dumps(message, ensure_ascii=False).encode(errors="replace")
        try:
            await self._process.send(data + b"\n")
        except OSError as error:
            raise ProgramBroken(self.end_reason or "it ended") from error

    async def receive(self) -> Line:
        """Return the next message; ProgramBroken with the reason once the program has ended, StartHung."""
        try:
            async with asyncio.timeout(self._start_s):
                line = await self._received.get()
        except TimeoutError as late:
            raise StartHung(f"it sent no message within {self._start_s:g} s of its start") from late
        self._start_s = None
        if line is None:
            self._received.put_nowait(None)
            raise ProgramBroken(self.end_reason)
        return line

    @property
    def end_reason(self) -> str:
        """Why the program ended, with the end of what it wrote to standard error; empty while it runs."""
        return self._broken

    async def close(self) -> None:
        """End the program and all that it started: by the end of its input, else by signals."""
        try:
            await self._process.end_input(STOP_GRACE_S)
            await self._process.end(STOP_GRACE_S)
        finally:
            # If this was cancelled meanwhile, nothing of it may stay either.
            await self._process.kill()

    def _take_output(self, data: bytes) -> None:
        self.is_silent = False
        try:
            for line in self._reader.feed(data):
                if isinstance(line, TooLong):
                    continue
                message = None
                with suppress(msgspec.DecodeError, ValueError, RecursionError):
                    message = _decode_line(line)
                if isinstance(message, dict):
                    self._received.put_nowait(message)
                else:
                    self._notice(short_line(line.decode(errors="replace"), MAX_REASON_CHARS))
        except ProtocolBroken as broken:
            self._broken = str(broken)
            self._received.put_nowait(None)
            self._process.cut()

    def _take_error(self, data: bytes) -> None:
        self._stderr = (self._stderr + data)[-MAX_STDERR_BYTES:]

    def _note_end(self, result: CommandResult) -> None:
        self.exit_code = result.exit_code
        self._broken = self._broken or short_line(exit_reason(result, self._stderr), MAX_REASON_CHARS)
        self._received.put_nowait(None)


def _decode_line(line: bytes) -> object:
    """Return the JSON value of a line, with characters that are cut in half replaced, as JavaScript writes them."""
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        value = json.loads(line.decode(errors="replace"))
        return msgspec.json.decode(json.dumps(value, ensure_ascii=False).encode(errors="replace"))


def text_of_blocks(content: object) -> str:
    """Return the text in the content of a message or of a tool's result: a string, or a list of blocks."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "\n".join(str(block["text"]) for block in blocks if isinstance(block, dict) and block.get("text"))
