"""Loopback servers of our own for the three wires: real sockets, scripted answers, every fault on demand.

async with serve("anthropic", [Turn(text="hello")]) as server:
    model = open_model(server.model, clock=..., rng=..., line=Line(..., environ=server.environ))
    ...
    assert server.requests[0].json["messages"]
"""

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from urllib.parse import urlsplit

from model_server import rendering
from model_server.turn import Protocol, Received, Script, Turn

KEY = "sk-test-0123456789"
PATHS: Mapping[Protocol, str] = {
    "anthropic": "/v1/messages",
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
}


class Server:
    """A running server; `requests` are all it got, in order, `connections` their number."""

    def __init__(self, protocol: Protocol, script: Script) -> None:
        self.protocol: Protocol = protocol
        self.requests: list[Received] = []
        self.pages: dict[str, str | Turn] = {}
        """What is at a path, for a GET: JSON, or any turn. Nothing is anywhere else."""
        self.others: dict[str, Callable[[Received], Turn]] = {}
        """What answers a POST to another path, e.g. one for embeddings."""
        self.looked: list[str] = []
        """The paths of all GETs, in order."""
        self.on_request: Callable[[], None] = lambda: None
        """Called when a request has come."""
        self.connections = 0
        self.port = 0
        self._script = script
        self._left: Iterator[Turn] = iter(()) if callable(script) else _repeated(script)
        self._open: set[asyncio.Task[None]] = set()

    @property
    def base_url(self) -> str:
        """Return the value for ANTHROPIC_BASE_URL or OPENAI_BASE_URL."""
        origin = f"http://127.0.0.1:{self.port}"
        return origin if self.protocol == "anthropic" else f"{origin}/v1"

    @property
    def environ(self) -> dict[str, str]:
        """Return the environment in which `model` is this server's."""
        word = "ANTHROPIC" if self.protocol == "anthropic" else "OPENAI"
        return {f"{word}_API_KEY": KEY, f"{word}_BASE_URL": self.base_url}

    @property
    def model(self) -> str:
        """Return the model string of a model whose price and window are known."""
        return {"anthropic": "anthropic:claude-sonnet-4-5", "chat": "openai-chat:gpt-4.1", "responses": "openai:gpt-5"}[
            self.protocol
        ]

    @property
    def open_connections(self) -> int:
        """Return how many clients are connected now."""
        return len(self._open)

    @property
    def local_model(self) -> str:
        """Return the model string of a local server, for the protocol `chat`."""
        return f"local:tiny@{self.base_url}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while await self._answer(reader, writer):
                    pass
        finally:
            self._open.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; return whether another one may follow on the same connection."""
        received = await _receive(reader)
        turn = self._page(received.path) if received.method == "GET" else self._turn(received)
        await asyncio.sleep(turn.delay_s)
        await _Sending(turn, reader, writer).send(self._content(turn, received))
        return turn.framing == "chunked"

    def _page(self, path: str) -> Turn:
        self.looked.append(path)
        page = self.pages.get(urlsplit(path).path)
        if isinstance(page, str):
            return Turn(body=page, content_type="application/json")
        return page or Turn(status=404, error=("not_found_error", f"nothing is at {path}"))

    def _turn(self, received: Received) -> Turn:
        self.requests.append(received)
        self.on_request()
        if (other := self.others.get(urlsplit(received.path).path)) is not None:
            return other(received)
        if urlsplit(received.path).path != PATHS[self.protocol]:
            return Turn(status=404, error=("not_found_error", f"nothing is at {received.path}"))
        if callable(self._script):
            return self._script(received)
        return next(self._left, Turn(status=400, error=("invalid_request_error", "the script is at its end")))

    def _content(self, turn: Turn, received: Received) -> tuple[str, Iterator[bytes]]:
        """Return the content type and the pieces of the body."""
        if turn.body is not None:
            return turn.content_type or "text/plain", iter([turn.body.encode()])
        if turn.status != HTTPStatus.OK:
            return "application/json", iter([rendering.error(self.protocol, turn)])
        asked = received.json
        model = asked.get("model", "")
        if asked.get("stream"):
            return "text/event-stream; charset=utf-8", rendering.events(self.protocol, turn, model)
        return "application/json", iter([rendering.whole(self.protocol, turn, model)])

    def stop(self) -> None:
        """Reset every open connection."""
        for task in self._open:
            task.cancel()


class _Sending:
    """Sends one turn, with its faults."""

    def __init__(self, turn: Turn, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._turn = turn
        self._reader = reader
        self._writer = writer
        self._sent = 0

    async def send(self, content: tuple[str, Iterator[bytes]]) -> None:
        content_type, pieces = content
        if self._turn.compressed:
            pieces = iter([gzip.compress(b"".join(pieces))])
        await self._fail_at(-1)
        self._writer.write(self._head(content_type))
        await self._fail_at(0)
        for piece in pieces:
            await self._body(piece)
            await self._writer.drain()
            if self._turn.drip_s or self._turn.endless:
                await asyncio.sleep(self._turn.drip_s)
        if self._turn.framing == "chunked":
            self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    def _head(self, content_type: str) -> bytes:
        framing = "Transfer-Encoding: chunked" if self._turn.framing == "chunked" else "Connection: close"
        encoding = {"Content-Encoding": "gzip"} if self._turn.compressed else {}
        fields = self._turn.headers | encoding
        more = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        status = f"HTTP/1.1 {self._turn.status} {_phrase(self._turn.status)}"
        return f"{status}\r\nContent-Type: {content_type}\r\n{framing}\r\n{more}\r\n".encode()

    async def _body(self, piece: bytes) -> None:
        """Write a piece, up to the byte where the turn fails."""
        end = next((at for at in (self._turn.cut_at, self._turn.stall_at) if at is not None and at >= 0), None)
        if end is not None and end <= self._sent + len(piece):
            self._write(piece[: end - self._sent])
            await self._fail_at(end)
        self._write(piece)
        self._sent += len(piece)

    def _write(self, piece: bytes) -> None:
        if piece:
            self._writer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if self._turn.framing == "chunked" else piece)

    async def _fail_at(self, byte: int) -> None:
        if self._turn.cut_at == byte:
            with suppress(ConnectionError):
                await self._writer.drain()
            self._writer.close() if self._turn.framing == "close" else self._writer.transport.abort()
            raise ConnectionResetError
        if self._turn.stall_at == byte:
            await self._writer.drain()
            leaving = asyncio.ensure_future(self._reader.read(1))  # returns when the client leaves
            while self._turn.keep_alive and not leaving.done():
                self._write(self._turn.keep_alive.encode())
                await asyncio.wait([leaving], timeout=0.05)
            await leaving
            raise ConnectionResetError


@asynccontextmanager
async def serve(protocol: Protocol, script: Script) -> AsyncIterator[Server]:
    """Run a server on 127.0.0.1 while the block lasts; requests beyond the script are refused with status 400."""
    server = Server(protocol, script)
    listening = await asyncio.start_server(server._serve, "127.0.0.1", 0, backlog=1024)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        server.stop()
        await listening.wait_closed()


def _repeated(turns: Script) -> Iterator[Turn]:
    assert not callable(turns)
    return (turn for turn in turns for _ in range(turn.times))


async def _receive(reader: asyncio.StreamReader) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.rstrip("\r\n").split("\r\n")
    fields = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in fields}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(method=first.split()[0], path=first.split()[1], headers=headers, body=body)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Overloaded"
