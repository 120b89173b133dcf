"""A pool shared with other processes by a Unix socket: each question, and each call of a tool, is a connection.

An end of the connection ends the call. Only processes of the user reach the socket, and commands in a sandbox do not.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from scaffold.core.tool import ToolOutput
from scaffold.extensions.mcp.offers import Ask, OfferedTool, Question, ServerPool, ServerSummary
from scaffold.host.sandbox.proxy import bind_unix_socket

MAX_LINE_BYTES = 16 * 2**20
REQUEST_S = 30.0  # within this time a process says what it wants
SHORT_PATH_BYTES = 100


class _ListTools(Struct, frozen=True, tag="tools"):
    pass


class _ListServers(Struct, frozen=True, tag="servers"):
    pass


class _CallTool(Struct, frozen=True, tag="call"):
    tool: OfferedTool
    args: dict[str, Any]


class _Answered(Struct, frozen=True, tag="answered"):
    words: str | None


class _Tools(Struct, frozen=True, tag="tools"):
    tools: tuple[OfferedTool, ...]


class _Servers(Struct, frozen=True, tag="servers"):
    servers: tuple[ServerSummary, ...]


class _Output(Struct, frozen=True, tag="output"):
    output: ToolOutput


class _Asks(Struct, frozen=True, tag="asks"):
    question: Question


_REQUESTS = msgspec.json.Decoder(_ListTools | _ListServers | _CallTool | _Answered)
_REPLIES = msgspec.json.Decoder(_Tools | _Servers | _Output | _Asks)


@asynccontextmanager
async def serve_pool(pool: ServerPool, path: Path) -> AsyncIterator[None]:
    """Serve the pool at `path`, whose folder becomes private, as long as the block lasts."""
    open_tasks: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            open_tasks.add(task)
            task.add_done_callback(open_tasks.discard)
        with contextlib.suppress(OSError, ValueError, asyncio.IncompleteReadError, TimeoutError):
            await _Exchange(pool, reader, writer).serve()
        writer.close()

    server = await asyncio.start_unix_server(accept, sock=bind_unix_socket(path), limit=MAX_LINE_BYTES)
    try:
        yield
    finally:
        server.close()
        with contextlib.suppress(OSError):
            os.unlink(path)  # noqa: PTH108 - as quick as it can be
        for task in open_tasks:
            task.cancel()
        if open_tasks:
            await asyncio.wait(set(open_tasks))


class _Exchange:
    """One connection, at the side of the pool."""

    def __init__(self, pool: ServerPool, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._pool = pool
        self._reader = reader
        self._writer = writer
        self._answers: asyncio.Queue[str | None] = asyncio.Queue()

    async def serve(self) -> None:
        """Answer the request."""
        async with asyncio.timeout(REQUEST_S):
            request = _REQUESTS.decode(await self._reader.readline())
        match request:
            case _ListTools():
                await self._send_message(_Tools(await self._pool.tools()))
            case _ListServers():
                await self._send_message(_Servers(await self._pool.overview()))
            case _CallTool(tool=tool, args=args):
                await self._answer_call(tool, args)
            case _Answered():
                return

    async def _answer_call(self, tool: OfferedTool, args: Mapping[str, Any]) -> None:
        call = asyncio.create_task(self._pool.call(tool, args, self._ask))
        listener = asyncio.create_task(self._pass_answers_on())
        try:
            await asyncio.wait([call, listener], return_when=asyncio.FIRST_COMPLETED)
            if call.done():
                await self._send_message(_Output(call.result()))
        finally:
            for task in (call, listener):
                task.cancel()
            await asyncio.wait([call, listener])

    async def _pass_answers_on(self) -> None:
        # When the other side ends the connection, it no longer wants the call.
        with contextlib.suppress(OSError, ValueError):
            while line := await self._reader.readline():
                message = _REQUESTS.decode(line)
                if isinstance(message, _Answered):
                    self._answers.put_nowait(message.words)

    async def _ask(self, question: Question) -> str | None:
        await self._send_message(_Asks(question))
        return await self._answers.get()

    async def _send_message(self, message: Struct) -> None:
        await _write_message(self._writer, message)


class RemotePool:
    """The pool of another process. Implements `offers.ServerPool`; a pool that is gone is a failed call."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def tools(self) -> tuple[OfferedTool, ...]:
        """Return the approved tools; OSError if there is no pool."""
        async with self._open_connection(_ListTools()) as (reader, _):
            reply = await _read_message(reader)
        return reply.tools if isinstance(reply, _Tools) else ()

    async def overview(self) -> tuple[ServerSummary, ...]:
        """Return the state of each server; OSError if there is no pool."""
        async with self._open_connection(_ListServers()) as (reader, _):
            reply = await _read_message(reader)
        return reply.servers if isinstance(reply, _Servers) else ()

    async def call(self, tool: OfferedTool, args: Mapping[str, Any], ask: Ask) -> ToolOutput:
        """Call a tool; raises only what `ask` raises."""
        begun = False
        try:
            async with self._open_connection(_CallTool(tool, dict(args))) as (reader, writer):
                begun = True
                while isinstance(reply := await _read_message(reader), _Asks):
                    await _write_message(writer, _Answered(await ask(reply.question)))
        except (OSError, ValueError) as error:
            effects = " It is unknown whether the call had effects." if begun else ""
            return ToolOutput(f"The pool of MCP servers is gone: {error}.{effects}", failed=True)
        return reply.output if isinstance(reply, _Output) else ToolOutput("The pool gave no answer.", failed=True)

    async def close(self) -> None:
        """Do nothing: the pool belongs to another process."""

    @asynccontextmanager
    async def _open_connection(
        self, request: Struct
    ) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        reader, writer = await asyncio.open_unix_connection(sock=_connect_socket(self._path), limit=MAX_LINE_BYTES)
        try:
            await _write_message(writer, request)
            yield reader, writer
        finally:
            writer.close()


async def _write_message(writer: asyncio.StreamWriter, message: Struct) -> None:
    writer.write(msgspec.json.encode(message) + b"\n")
    await writer.drain()


async def _read_message(reader: asyncio.StreamReader) -> _Tools | _Servers | _Output | _Asks:
    line = await reader.readline()
    if not line:
        raise ConnectionResetError("it ended")
    reply: _Tools | _Servers | _Output | _Asks = _REPLIES.decode(line)
    return reply


def _connect_socket(path: Path) -> socket.socket:
    # A path may be longer than a socket address: then it is reached by its folder's descriptor.
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if len(os.fsencode(path)) < SHORT_PATH_BYTES:
            client.connect(str(path))
        else:
            folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                client.connect(f"/proc/self/fd/{folder}/{path.name}")
            finally:
                os.close(folder)
    except OSError:
        client.close()
        raise
    client.setblocking(False)
    return client
