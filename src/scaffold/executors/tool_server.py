"""Our tools for a program of others, as one MCP server.

The server that the program starts, inside its sandbox, only passes bytes on. They are answered here, in the process
that owns the tools: there are their gates, their transactions and the secrets that no model may see. Each turn has a
server of its own, at an address that no other turn can reach.
"""

import asyncio
import secrets
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec import structs

from scaffold.core.conversation import ToolCall, ToolResult
from scaffold.core.tool import Tool, is_nested_too_deeply
from scaffold.executors import tool_relay
from scaffold.executors.port import ToolServer
from scaffold.extensions.protocol_lines import LineTransport, Message
from scaffold.host.atomic_files import delete_folder_if_possible
from scaffold.host.installation import find_installation
from scaffold.host.leftovers import temporary_prefix
from scaffold.host.sandbox.confinement import SandboxSpec
from scaffold.host.sandbox.proxy import bind_unix_socket
from scaffold.tools.read_cache import is_read_only

NAME = "scaffold"
"""Of the server, as programs show it."""
PROTOCOL_VERSION = "2025-06-18"
"""Of a client that names none; what we serve is the same in all versions, so each client gets its own."""
METHOD_NOT_FOUND, INVALID_PARAMS = -32601, -32602
ADDRESS = "tools"
TOKEN_BYTES = 24

AnswerCall = Callable[[ToolCall], Awaitable[ToolResult]]
"""Runs one call. What it raises ends the turn: a human has to decide, the process is asked to stop."""


@asynccontextmanager
async def offer_tools(
    tools: Sequence[Tool], answer: AnswerCall, sandbox: SandboxSpec | None
) -> AsyncIterator[tuple[ToolServer, SandboxSpec | None]]:
    """Yield the server of the tools, and the sandbox with a way to it, for as long as the block lasts.

    Its address is in a new folder, which commands in the sandbox cannot write. What `answer` raises cancels the block,
    and is raised from it.
    """
    above = sandbox.confinement.temporary.parent if sandbox else None
    folder = Path(tempfile.mkdtemp(prefix=temporary_prefix(), dir=above))
    address, token, port = folder / ADDRESS, b"", None
    try:
        # Where there is no network namespace, there are no Unix sockets either.
        if sandbox is None or sandbox.level in {"bubblewrap", "none"}:
            listener = bind_unix_socket(address)
        else:
            token = secrets.token_urlsafe(TOKEN_BYTES).encode()
            listener = socket.create_server(("127.0.0.1", 0))
            port = int(listener.getsockname()[1])
            address.write_bytes(b"%d %b" % (port, token))
        async with asyncio.TaskGroup() as group:
            offer = _ToolConnections(tools, answer, group, token)
            server = await asyncio.start_server(offer.accept, sock=listener)
            try:
                command = (sys.executable, "-I", "-S", tool_relay.__file__, str(address))
                yield ToolServer(name=NAME, command=command), _with_way(sandbox, address, port)
            finally:
                server.close()
                offer.end()
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None  # of the block, or of one call: a second one is cancelled by the first
    finally:
        delete_folder_if_possible(folder)


def _with_way(sandbox: SandboxSpec | None, address: Path, port: int | None) -> SandboxSpec | None:
    if sandbox is None:
        return None
    confinement = sandbox.confinement
    return structs.replace(
        sandbox,
        confinement=structs.replace(
            confinement,
            readable=(*confinement.readable, address),
            sockets=(*confinement.sockets, address),
            ports=(*confinement.ports, *([port] if port else [])),
        ),
    )


class _ToolConnections:
    """The connections of one turn's program; it may start its server more than once."""

    def __init__(self, tools: Sequence[Tool], answer: AnswerCall, group: asyncio.TaskGroup, token: bytes) -> None:
        self._listed = [_wire_tool(tool) for tool in tools]
        self._answer = answer
        self._group = group
        self._token = token
        self._one_call = asyncio.Lock()
        """Calls run in their order, as those of one reply of a model do."""
        self._tasks: set[asyncio.Task[None]] = set()

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection until its other side ends."""
        _ = self._start_task(self._serve_connection(reader, writer))

    def end(self) -> None:
        """End all connections, and calls that nobody waits for any more."""
        for task in self._tasks:
            task.cancel()

    def _start_task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._group.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        calls: dict[str | int, asyncio.Task[None]] = {}
        try:
            sent = await reader.readexactly(len(self._token))
            if not secrets.compare_digest(sent, self._token):
                return
            transport = LineTransport(reader, writer)
            while (message := await transport.receive()) is not None:
                match message:
                    case {"method": "tools/call", "id": int() | str() as number}:
                        calls[number] = self._start_task(self._answer_call(transport, number, message))
                    case {"method": "notifications/cancelled", "params": {"requestId": int() | str() as number}}:
                        if number in calls:
                            calls[number].cancel()
                    case {"method": str(method), "id": int() | str() as number}:
                        transport.post({"jsonrpc": "2.0", "id": number, **self._answer_request(method, message)})
        except (OSError, asyncio.IncompleteReadError):
            return
        finally:
            for call in calls.values():
                call.cancel()
            writer.close()

    def _answer_request(self, method: str, message: Message) -> Message:
        match method:
            case "initialize":
                asked = (message.get("params") or {}).get("protocolVersion")
                return {
                    "result": {
                        "protocolVersion": asked if isinstance(asked, str) else PROTOCOL_VERSION,
                        "capabilities": {"tools": {}},
                        "serverInfo": {"name": NAME, "version": find_installation().version},
                    }
                }
            case "ping":
                return {"result": {}}
            case "tools/list":
                return {"result": {"tools": self._listed}}
        return _error_response(METHOD_NOT_FOUND, f"there is no method `{method}`")

    async def _answer_call(self, transport: LineTransport, number: str | int, message: Message) -> None:
        match message.get("params"):
            case {"name": str(name), **rest} if isinstance(args := rest.get("arguments") or {}, Mapping):
                if is_nested_too_deeply(args):
                    response = _error_response(INVALID_PARAMS, "the arguments are nested too deeply")
                else:
                    async with self._one_call:
                        result = await self._answer(ToolCall(str(number), name, args))
                    content = [{"type": "text", "text": result.content}]
                    response = {"result": {"content": content, "isError": result.failed}}
            case _:
                response = _error_response(INVALID_PARAMS, "a call has a `name`, and `arguments`, which are an object")
        transport.post({"jsonrpc": "2.0", "id": number, **response})


def _wire_tool(tool: Tool) -> Message:
    return {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": dict(tool.schema),
        "annotations": {"readOnlyHint": is_read_only(tool)},
    }


def _error_response(code: int, why: str) -> Message:
    return {"error": {"code": code, "message": why}}
