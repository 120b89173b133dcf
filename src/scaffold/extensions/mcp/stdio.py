"""The streams of a server's program: `host` runs its process, the protocol's SDK reads the messages."""

import contextlib
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import mcp_types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from msgspec import Struct, structs

from scaffold.core.printable_text import short_line
from scaffold.extensions.mcp.server_config import ServerConfig
from scaffold.extensions.program_output import (
    MAX_MESSAGE_BYTES,
    CallbackSink,
    LineReader,
    ProtocolBroken,
    TooLong,
    exit_reason,
)
from scaffold.host.child_environment import PROXIES, child_environment
from scaffold.host.process.piped_process import PipedCommand, PipedProcess
from scaffold.host.sandbox.confinement import SandboxSpec
from scaffold.policy.command_sandbox import with_egress
from scaffold.policy.secret.unreadable_files import secret_entry


class ServerPlace(Struct, frozen=True, kw_only=True):
    """Where the programs of servers run."""

    cwd: Path
    environ: Mapping[str, str]
    """Ours; a program gets the few variables of it that hold no secrets, and those that its entry names."""
    sandbox: SandboxSpec | None
    """Confines programs as it confines commands; None for no sandbox."""
    writes: bool = True
    """Whether they may write where the sandbox lets commands write."""


STOP_GRACE_S = 1.0
# A longer line ends the server; a line that is shorter, and too long, costs only the call that it answers.
MAX_PASSED_BYTES = 10 * MAX_MESSAGE_BYTES
MAX_WAITING = 1_000  # messages that are not handled yet; a server that sends more is ended
MAX_UNANSWERED_BYTES = 4 * MAX_MESSAGE_BYTES  # what a server may write, log lines too, without answering anything
MAX_STDERR_BYTES = 2_000
MAX_REASON_CHARS = 300
Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]


class ProgramStreams:
    """Connects one program. Nothing it writes is held without a bound; `ended` receives why it ended, once."""

    def __init__(self, command: PipedCommand, ended: Callable[[str], object]) -> None:
        self._ended = ended
        self._incoming, self.received = anyio.create_memory_object_stream[SessionMessage | Exception](MAX_WAITING)
        self.sent, self._outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        self._reader = LineReader(most=MAX_PASSED_BYTES)
        self._stderr = b""
        self._unanswered = 0
        self._over = False
        self._process = PipedProcess(
            command,
            CallbackSink(self._read_output),
            CallbackSink(self._read_stderr),
            lambda result: self._end_with_error(exit_reason(result, self._stderr)),
        )

    async def write(self) -> None:
        """Pass on what is sent, until the program or the session ends."""
        async with self._outgoing:
            async for item in self._outgoing:
                data = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
                try:
                    await self._process.send(data)
                except OSError:
                    return

    async def close(self) -> None:
        """End the program and all that it started."""
        self._over = True
        self._incoming.close()
        await self._process.end(STOP_GRACE_S)
        self.received.close()
        self.sent.close()
        self._outgoing.close()

    def _read_output(self, data: bytes) -> None:
        if self._over:
            return
        try:
            for line in self._reader.feed(data):
                self._take_line(line)
        except ProtocolBroken as broken:
            self._end_with_error(str(broken))

    def _take_line(self, line: bytes | TooLong) -> None:
        if isinstance(line, TooLong):
            reason = f"its answer is larger than {MAX_MESSAGE_BYTES >> 20} MB"
            error = mcp_types.ErrorData(code=mcp_types.INTERNAL_ERROR, message=reason)
            self._receive_message(mcp_types.JSONRPCError(jsonrpc="2.0", id=line.request, error=error))
            return
        message = None  # many servers log on standard output, too
        with contextlib.suppress(ValueError):
            message = mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        is_answer = isinstance(message, mcp_types.JSONRPCResponse | mcp_types.JSONRPCError)
        self._unanswered = 0 if is_answer else self._unanswered + len(line)
        if self._unanswered > MAX_UNANSWERED_BYTES:
            raise ProtocolBroken(f"it wrote more than {MAX_UNANSWERED_BYTES >> 20} MB that nobody asked for")
        if message is not None:
            self._receive_message(message)

    def _receive_message(self, message: mcp_types.JSONRPCMessage) -> None:
        try:
            self._incoming.send_nowait(SessionMessage(message))
        except anyio.WouldBlock as full:
            raise ProtocolBroken(f"it wrote more than {MAX_WAITING} messages at once") from full
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return  # the session is over

    def _read_stderr(self, data: bytes) -> None:
        self._stderr = (self._stderr + data)[-MAX_STDERR_BYTES:]

    def _end_with_error(self, reason: str) -> None:
        if self._over:
            return
        self._over = True
        self._ended(short_line(reason, MAX_REASON_CHARS))
        self._incoming.close()
        self._process.cut()


@asynccontextmanager
async def program_streams(command: PipedCommand, ended: Callable[[str], object]) -> AsyncIterator[Streams]:
    """Start a program and yield its streams; it ends with the block."""
    program = ProgramStreams(command, ended)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(program.write)
            yield program.received, program.sent
            group.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True), contextlib.suppress(OSError):
            await program.close()


@asynccontextmanager
async def server_command(config: ServerConfig, place: ServerPlace) -> AsyncIterator[PipedCommand]:
    """Yield the command of an expanded server; its way to named hosts lasts as long as the block."""
    environ = dict(child_environment(place.environ))
    if config.network != "hosts":
        # The address of a proxy may contain a password.
        environ = {name: value for name, value in environ.items() if name.lower() not in PROXIES}
    async with with_egress(_server_sandbox(config, place)) as sandbox:
        program = os.path.expanduser(config.command)  # noqa: PTH111, ASYNC240 - a name on PATH stays as it is
        yield PipedCommand(argv=(program, *config.args), cwd=place.cwd, env={**environ, **config.env}, sandbox=sandbox)


def _server_sandbox(config: ServerConfig, place: ServerPlace) -> SandboxSpec | None:
    if place.sandbox is None:
        return None
    zone = place.sandbox.confinement
    writable = (*(zone.writable if place.writes else ()), *_existing_folders(config.writes))
    # What its command line names is meant to be read, and so are the files beside a script.
    named, home = _existing_folders((config.command, *config.args)), Path.home().resolve()
    folders = (path.parent if path.is_file() and path.parent != home else path for path in named)
    own = [path for path in folders if not secret_entry(str(path)) and not home.is_relative_to(path)]
    readable = (*zone.readable, *_existing_folders(config.reads), *own, *(() if place.writes else zone.writable))
    zone = structs.replace(
        zone, writable=writable, readable=readable, network=config.network, hosts=config.hosts, sockets=()
    )
    return structs.replace(place.sandbox, confinement=zone, proxy=None)


def _existing_folders(names: tuple[str, ...]) -> tuple[Path, ...]:
    paths = (Path(name).expanduser() for name in names)
    return tuple(path.resolve() for path in paths if path.is_absolute() and path.exists())
