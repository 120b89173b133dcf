"""Serve clients: one on the standard streams, or several over HTTP on this machine."""

import asyncio
import secrets
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from mcp.server import Server
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from msgspec import Struct
from pydantic import ValidationError
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from scaffold.core.errors import UsageError
from scaffold.extensions.protocol_lines import INVALID_REQUEST, LineTransport, line_transport
from scaffold.host.protocol_streams import ProtocolStreams
from scaffold.mcp.consent import Power
from scaffold.mcp.server import build_server
from scaffold.mcp.tools import ServedPlace
from scaffold.orchestrator.user_control.own_program import OwnProgram
from scaffold.policy.secret.redaction import Redactor

LOOPBACK = "127.0.0.1"  # never another address: who reaches the server starts processes here


class RunService(Struct, frozen=True, kw_only=True):
    """Which runs are served, and what clients may do without asking their user."""

    cwd: Path
    program: Sequence[str]
    """This program as a command, without arguments."""
    allow_start: bool
    allow_steer: bool
    redactor: Redactor


async def serve_runs(
    service: RunService, streams: ProtocolStreams | None, port: int | None, tell: Callable[[str], None]
) -> None:
    """Serve on the streams, or without them over HTTP at the port, whose address `tell` gets."""
    powers: tuple[tuple[Power, bool], ...] = (("start", service.allow_start), ("steer", service.allow_steer))
    allowed = frozenset(power for power, is_allowed in powers if is_allowed)
    async with OwnProgram(service.cwd, service.program) as program:
        server = build_server(ServedPlace(service.cwd, program), allowed, service.redactor)
        if streams is not None:
            await serve_streams(server, streams)
        else:
            await serve_http(server, port or 0, tell)


async def serve_streams(server: Server[Any], streams: ProtocolStreams) -> None:
    """Serve the client at the other end of the streams until it goes away."""
    to_server, from_client = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_client, from_server = anyio.create_memory_object_stream[SessionMessage](0)
    async with line_transport(streams) as transport, asyncio.TaskGroup() as group:

        async def forward_replies() -> None:
            async with from_server:
                async for each in from_server:
                    # The client has gone away, and with it the reader of answers that were under way.
                    with suppress(OSError):
                        await transport.send(each.message.model_dump(mode="json", by_alias=True, exclude_unset=True))

        reading = group.create_task(_forward_requests(transport, to_server))
        writing = group.create_task(forward_replies())
        try:
            await server.run(from_client, to_client, server.create_initialization_options())
        finally:
            reading.cancel()
            writing.cancel()


async def serve_http(server: Server[Any], port: int, tell: Callable[[str], None]) -> None:
    """Serve clients of this machine over HTTP; `tell` receives the address.

    The address has a secret part: any user of the machine can reach the port. Requests of pages in a browser are
    refused by their Host and Origin.
    """
    path = f"/{secrets.token_urlsafe(24)}/mcp"
    listening = _open_socket(port)
    port = listening.getsockname()[1]
    tell(f"http://{LOOPBACK}:{port}{path}")
    app = _own_requests(server.streamable_http_app(streamable_http_path=path, host=LOOPBACK), port)
    # No access log: it would have the secret part of the address.
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="on")
    await uvicorn.Server(config).serve(sockets=[listening])


def _own_requests(app: ASGIApp, port: int) -> ASGIApp:
    # The library admits any port, and the first of several fields: a page of another server of this machine.
    hosts = [f"{name}:{port}".encode() for name in (LOOPBACK, "localhost")]

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        answer = app
        if scope["type"] != "lifespan":
            sent = [[value for name, value in scope["headers"] if name == field] for field in (b"host", b"origin")]
            if sent[0] not in [[each] for each in hosts]:
                answer = PlainTextResponse("This is not the Host of this server.", 421)
            elif sent[1] not in [[], *([b"http://" + each] for each in hosts)]:
                answer = PlainTextResponse("Requests of this Origin are not served.", 403)
        await answer(scope, receive, send)

    return serve


def _open_socket(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # A restarted server may use the port of the one before at once.
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOOPBACK, port))
        listening.listen()  # before the address is printed: early connections wait
    except OSError as error:
        listening.close()
        what = f"port {port} of this machine cannot be used: {(error.strerror or str(error)).lower()}"
        raise UsageError(what, "Pass another one, or 0 for any that is free.") from error
    return listening


async def _forward_requests(transport: LineTransport, to_server: Any) -> None:
    async with to_server:
        while (message := await transport.receive()) is not None:
            try:
                parsed = jsonrpc_message_adapter.validate_python({"jsonrpc": "2.0", **message}, by_name=False)
            except ValidationError:
                error = {"code": INVALID_REQUEST, "message": "not a valid JSON-RPC 2.0 message"}
                transport.post({"jsonrpc": "2.0", "id": message.get("id"), "error": error})
                continue
            await to_server.send(SessionMessage(parsed))
