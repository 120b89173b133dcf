"""One plugin: its process, and the requests to it, one at a time."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from scaffold.core.printable_text import short_line
from scaffold.extensions.plugins.manifest import MAX_NAME_CHARS, Manifest, read_manifest
from scaffold.extensions.program_output import (
    MAX_MESSAGE_BYTES,
    CallbackSink,
    LineReader,
    ProtocolBroken,
    TooLong,
    exit_reason,
)
from scaffold.host.process.piped_process import PipedCommand, PipedProcess

ANSWER_S = 5.0  # within this time a plugin answers each request, or it is ended
SHUTDOWN_S = 1.0  # for the answer to `shutdown`; as long again for its end after SIGTERM
FLOOD_BYTES = MAX_MESSAGE_BYTES  # a plugin that writes more than this between two requests is ended
MAX_ERROR_CHARS = 300
MAX_STDERR_BYTES = 2_000
PROTOCOL = 1
PluginState = Literal["starting", "running", "ended", "rejected"]


class PluginAnswer(Struct, frozen=True):
    """The answer to a request; the result is JSON that is not decoded yet."""

    id: int
    result: bytes


class PluginRefusal(Struct, frozen=True):
    """An error that a plugin answered a request with."""

    id: int
    message: str


class Notice(Struct, frozen=True):
    """A notification or request of the plugin's own: it answers nothing, and gets no answer."""


class _Error(Struct):
    message: str = ""
    code: int = 0


class _PluginMessage(Struct):
    jsonrpc: Literal["2.0"]
    id: int | str | float | None = None
    method: str | None = None
    result: msgspec.Raw = msgspec.Raw(b"")
    error: _Error | None = None


_MESSAGES = msgspec.json.Decoder(_PluginMessage)


class CallFailed(Struct, frozen=True):
    """A request without a result: the plugin refused it, or has ended."""

    reason: str


class Plugin:
    """One plugin. Whatever it does costs at most ANSWER_S and one line about its end."""

    def __init__(self, file: Path, command: PipedCommand, tell: Callable[[str], object]) -> None:
        """Start it; `tell` receives the lines for the user."""
        self.file = file
        self.manifest = Manifest(name=short_line(file.stem, MAX_NAME_CHARS))
        """Its own once it has answered `initialize`; until then nameless but for its file."""
        self.state: PluginState = "starting"
        self.error = ""
        """The last thing that went wrong; empty if nothing has."""
        self._tell = tell
        self._told: set[str] = set()
        self._closing = False
        self._turn = asyncio.Lock()
        self._calls: set[asyncio.Task[bytes | CallFailed]] = set()
        self._answer: asyncio.Future[bytes | CallFailed] | None = None
        self._number = 0
        self._reader = LineReader()
        self._stderr = b""
        self._unasked = 0
        self._process = PipedProcess(
            command,
            CallbackSink(self._read_output),
            CallbackSink(self._read_stderr),
            lambda result: self._end_with_error(exit_reason(result, self._stderr)),
        )

    @property
    def runs(self) -> bool:
        """Whether it can be asked something."""
        return self.state in {"starting", "running"}

    async def initialize(self, about: Mapping[str, Any]) -> None:
        """Ask for its manifest; it is rejected if it gives none that is valid."""
        result = await self.call("initialize", {"protocol": PROTOCOL, **about})
        if isinstance(result, CallFailed):
            self.reject(result.reason)
            return
        try:
            self.manifest = read_manifest(result)
        except ValueError as error:
            self.reject(str(error))
            return
        if self.runs:
            self.state = "running"

    async def call(self, method: str, params: Mapping[str, Any], *, answer_s: float = ANSWER_S) -> bytes | CallFailed:
        """Return a request's undecoded JSON result; after a cancellation the next request waits for its end."""
        task = asyncio.create_task(self._send_request(method, params, answer_s))
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        return await asyncio.shield(task)

    def complain(self, about: str, problem: str) -> None:
        """Note something that went wrong; the user is told once for each `about`."""
        self.error = short_line(problem, MAX_ERROR_CHARS)
        if about not in self._told:
            self._told.add(about)
            self._tell(f"plugin {self.manifest.name}: {self.error}")

    def reject(self, reason: str) -> None:
        """End it, because it cannot be used."""
        if self.runs:
            self._end_process("rejected", reason, "does not run")

    async def close(self) -> None:
        """Ask it to shut down, and end it."""
        self._closing = True
        # One that is at work, for a caller that no longer waits, gets the signal at once.
        if self.runs and not self._turn.locked():
            await self.call("shutdown", {}, answer_s=SHUTDOWN_S)
        await self._process.end(SHUTDOWN_S)
        if self.runs:
            self.state = "ended"
        self._settle_request("it was shut down")
        if self._calls:
            await asyncio.wait(self._calls)

    async def _send_request(self, method: str, params: Mapping[str, Any], answer_s: float) -> bytes | CallFailed:
        async with self._turn:
            if not self.runs:
                return CallFailed(self.error or "it has ended")
            self._number += 1
            self._unasked = 0
            try:
                frame = request_frame(self._number, method, params)
            except UnicodeEncodeError:
                return CallFailed("the request contains a lone surrogate")
            if len(frame) > MAX_MESSAGE_BYTES:
                return CallFailed(f"the request is larger than {MAX_MESSAGE_BYTES >> 20} MB")
            answer: asyncio.Future[bytes | CallFailed] = asyncio.get_running_loop().create_future()
            self._answer = answer
            try:
                async with asyncio.timeout(answer_s):
                    # If it has ended, that settles the answer, with the reason.
                    with contextlib.suppress(OSError):
                        await self._process.send(frame)
                    return await answer
            except TimeoutError:
                self._end_with_error(f"it did not answer `{method}` within {answer_s:g} s")
            finally:
                self._answer = None
            return CallFailed(self.error)

    def _read_output(self, data: bytes) -> None:
        if not self.runs:
            return
        try:
            # All lines first: an answer in front of a line that breaks the protocol does not count.
            for line in list(self._reader.feed(data)):
                if not isinstance(line, TooLong):
                    self._take_line(line)
        except ProtocolBroken as broken:
            self._end_with_error(str(broken))

    def _take_line(self, line: bytes) -> None:
        message = read_frame(line)
        if isinstance(message, Notice):
            self._count_unasked(len(line))
        elif self._answer is None or self._answer.done() or message.id != self._number:
            raise ProtocolBroken(f"it answered a request with number {message.id}, which is not open")
        else:
            match message:
                case PluginAnswer(result=result):
                    self._answer.set_result(result)
                case PluginRefusal(message=text):
                    reason = short_line(text, MAX_ERROR_CHARS)
                    self._answer.set_result(CallFailed(f"it answered with an error: {reason}"))

    def _read_stderr(self, data: bytes) -> None:
        self._stderr = (self._stderr + data)[-MAX_STDERR_BYTES:]
        if self.runs:
            self._count_unasked(len(data))

    def _count_unasked(self, size: int) -> None:
        self._unasked += size
        if self._unasked > FLOOD_BYTES:
            self._end_with_error(f"it wrote more than {FLOOD_BYTES >> 20} MB without being asked")

    def _end_with_error(self, reason: str) -> None:
        if self._closing:
            self._settle_request(reason)
        elif self.state == "starting":
            self._end_process("rejected", reason, "does not run")
        elif self.state == "running":
            self._end_process("ended", reason, "has ended, and the session goes on without it")

    def _end_process(self, state: PluginState, reason: str, consequence: str) -> None:
        self.state = state
        self.error = short_line(reason, MAX_ERROR_CHARS)
        self._tell(f"plugin {self.manifest.name} {consequence}: {self.error}")
        self._settle_request(self.error)
        # At once, without a grace: it may be flooding us.
        self._process.cut()

    def _settle_request(self, reason: str) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(CallFailed(reason))


def request_frame(request_id: int, method: str, params: Mapping[str, Any]) -> bytes:
    """Return the frame of a request."""
    message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
    return msgspec.json.encode(message) + b"\n"


def read_frame(line: bytes) -> PluginAnswer | PluginRefusal | Notice:
    """Return the message in a line; ProtocolBroken for an invalid one."""
    try:
        message = _MESSAGES.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ProtocolBroken(f"it wrote no JSON-RPC message: {error}") from error
    if message.method is not None:
        return Notice()
    if not isinstance(message.id, int):
        raise ProtocolBroken("it wrote an answer without the number of a request")
    result = bytes(message.result)
    if message.error is not None and not result:
        return PluginRefusal(message.id, message.error.message)
    if message.error is not None or not result:
        raise ProtocolBroken("it wrote an answer that has not exactly one of `result` and `error`")
    return PluginAnswer(message.id, result)
