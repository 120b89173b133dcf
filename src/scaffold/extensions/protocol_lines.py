"""JSON-RPC with the program that started this one, one message a line; other lines get a protocol error."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from msgspec import Struct

from scaffold.host.protocol_streams import ProtocolStreams

# Of one message: room for a few images. A longer line is dropped as it comes, without being held.
MAX_LINE_BYTES = 32_000_000
CHUNK_BYTES = 1 << 16
PARSE_ERROR, INVALID_REQUEST = -32700, -32600
Message = dict[str, Any]


class NoMessage(Struct, frozen=True):
    """Why a line is not a message, with the code of its error and the id of the request, if it has one."""

    code: int
    why: str
    id: str | int | None = None


TOO_LONG = NoMessage(INVALID_REQUEST, f"a message is at most {MAX_LINE_BYTES // 1_000_000} MB long")


class LineTransport:
    """Messages to and from the peer; sending never waits for the peer unless `send` is used."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._buffer = bytearray()

    async def receive(self) -> Message | None:
        """Return the next message; None once the peer has gone."""
        while (line := await self._next_line()) is not None:
            message = line if isinstance(line, NoMessage) else read_message(line)
            if isinstance(message, NoMessage):
                error = {"code": message.code, "message": message.why}
                self.post({"jsonrpc": "2.0", "id": message.id, "error": error})
            elif message:
                return message
        return None

    def post(self, message: Message) -> None:
        """Send a message behind those sent before it, without waiting until it is read."""
        if not self._writer.is_closing():
            # Text of models may have halves of characters, which are no UTF-8.
            text = json.dumps(_without_inputs(message), separators=(",", ":"), ensure_ascii=False, default=str)
            self._writer.write(text.encode(errors="replace") + b"\n")

    async def send(self, message: Message) -> None:
        """Send a message, and wait while the peer has much to read; raises ConnectionError if it has gone."""
        self.post(message)
        await self._writer.drain()

    async def close(self) -> None:
        """End: the peer sees the end of our output."""
        self._writer.close()
        with suppress(ConnectionError, BrokenPipeError):
            await self._writer.wait_closed()

    async def _next_line(self) -> bytes | NoMessage | None:
        dropped = False
        while True:
            end = self._buffer.find(b"\n")
            if end >= 0:
                line = bytes(self._buffer[:end])
                del self._buffer[: end + 1]
                return TOO_LONG if dropped or len(line) > MAX_LINE_BYTES else line
            if len(self._buffer) > MAX_LINE_BYTES:
                dropped = True
            if dropped:
                self._buffer.clear()
            if not (chunk := await self._reader.read(CHUNK_BYTES)):
                return None
            self._buffer += chunk


def read_message(line: bytes) -> Message | NoMessage:
    """Return the message on a line, an empty one for an empty line, or what is wrong with it."""
    if not line.strip():
        return {}
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return NoMessage(PARSE_ERROR, "this line is not JSON")
    if not isinstance(message, dict):
        return NoMessage(INVALID_REQUEST, "a message is a JSON object")
    number = message.get("id")
    if isinstance(number, bool) or not isinstance(number, str | int | None):
        return NoMessage(INVALID_REQUEST, "an id is a text or a whole number")
    if "method" in message:
        is_valid = isinstance(message["method"], str) and isinstance(message.get("params", {}), dict | None)
    else:
        is_valid = "id" in message and isinstance(message.get("error", {}), dict)
    return message if is_valid else NoMessage(INVALID_REQUEST, "this is neither a request nor an answer", number)


def _without_inputs(message: Message) -> Message:
    # The SDK repeats the input in its errors, and there may be secrets in it.
    error = message.get("error")
    if isinstance(error, dict) and error.get("data", error) is None:
        return {**message, "error": {"code": error["code"], "message": error["message"]}}
    data = error.get("data") if isinstance(error, Mapping) else None
    problems = data.get("errors") if isinstance(data, Mapping) else None
    if not isinstance(problems, list):
        return message
    told = [{"at": [*each.get("loc", ())], "problem": each.get("msg")} for each in problems[:10]]
    return {**message, "error": {**error, "data": {"errors": told}}}  # type: ignore[dict-item] # a mapping, see above


@asynccontextmanager
async def line_transport(streams: ProtocolStreams) -> AsyncIterator[LineTransport]:
    """Connect to the peer at the other end of the streams while the context lasts."""
    loop = asyncio.get_running_loop()
    reader, gone = asyncio.StreamReader(), asyncio.StreamReader()
    receive = open(streams.receive, "rb", buffering=0)  # noqa: PTH123, SIM115, ASYNC230 - a pipe; the loop closes it
    send = open(streams.send, "wb", buffering=0)  # noqa: PTH123, SIM115, ASYNC230 - likewise
    incoming, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), receive)
    outgoing, protocol = await loop.connect_write_pipe(lambda: asyncio.StreamReaderProtocol(gone), send)
    transport = LineTransport(reader, asyncio.StreamWriter(outgoing, protocol, None, loop))

    async def end_when_gone() -> None:
        # A peer that died may leave our input open: its children may have inherited the pipe.
        await gone.read()
        reader.feed_eof()

    async with asyncio.TaskGroup() as group:
        watching = group.create_task(end_when_gone())
        try:
            yield transport
        finally:
            watching.cancel()
            incoming.close()
            await transport.close()
