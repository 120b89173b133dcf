"""A provider on loopback that takes no time: a process of its own that speaks all three wires.

`python provider.py` prints its port and ends with its stdin. What it does is said by the model's name in a request:
`bench-40-50` asks for a tool until 40 results have come back, each time after 50 ms, then ends. `bench-4-0-cached`
counts tokens as a provider with a cache would, and ends at each fifth request. `GET /told` says what came so far,
`GET /forget` forgets it. Only the standard library is used.
"""

import asyncio
import gc
import json
import re
import sys
import time
from collections.abc import Mapping
from typing import Any

from prefix_cache import MarkedCache, PrefixCache
from wires import Reply, TokenCounts, answer, http

ORDER = re.compile(rb'"model":\s*"bench-(\d+)-(\d+)(-cached)?"')
LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)
WHOLE = re.compile(rb'"stream":\s*true')
RESULTS = {
    "/messages": b'"tool_use_id"',
    "/chat/completions": b'"tool_call_id"',
    "/responses": b'"function_call_output"',
}
"""What stands once in a request for each result of a tool."""


class Account:
    """What came so far."""

    def __init__(self) -> None:
        self.requests = 0
        self.first_at_s = 0.0
        self.first = b""
        self.tokens = [0, 0]
        self.marked = MarkedCache()
        self.prefixes = PrefixCache()

    def take(self, body: bytes) -> None:
        """Count a request; the first one is kept."""
        if not self.requests:
            self.first_at_s, self.first = time.monotonic(), body
        self.requests += 1

    def count(self, path: str, body: bytes) -> TokenCounts:
        """Return the request's tokens as its provider would count them."""
        counted = (self.marked if path.endswith("/messages") else self.prefixes).count(body)
        self.tokens = [self.tokens[0] + counted.total, self.tokens[1] + counted.read]
        return counted

    def told(self) -> Mapping[str, Any]:
        """Return it as JSON: times are of the machine's monotonic clock, tokens are those of cached scenarios."""
        return {
            "requests": self.requests,
            "first_at_s": self.first_at_s,
            "first_bytes": len(self.first),
            "input_tokens": self.tokens[0],
            "cached_tokens": self.tokens[1],
        }


class Connection(asyncio.Protocol):
    """One client: requests come one after another, each with a length."""

    def __init__(self, accounts: list[Account]) -> None:
        self._accounts = accounts
        self._received = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way back."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer as soon as a request is whole."""
        self._received = self._received + data if self._received else data
        head = self._received.find(b"\r\n\r\n")
        if head < 0:
            return
        length = LENGTH.search(self._received, 0, head + 2)
        end = head + 4 + (int(length[1]) if length else 0)
        if len(self._received) < end:
            return
        method, path, _ = self._received[:head].split(b" ", 2)
        body, self._received = self._received[head + 4 : end], self._received[end:]
        route = path.decode().partition("?")[0]
        if method == b"GET":
            self._tell(http(*self._look(route)))
        else:
            self._answer(route, body)

    def _look(self, path: str) -> tuple[str, str, bytes]:
        if path == "/forget":
            self._accounts[0] = Account()
        if path not in {"/told", "/forget"}:
            return "404 Not Found", "application/json", b"{}"
        return "200 OK", "application/json", json.dumps(self._accounts[0].told()).encode()

    def _answer(self, path: str, body: bytes) -> None:
        account = self._accounts[0]
        account.take(body)
        order = ORDER.search(body)
        mark = next((mark for end, mark in RESULTS.items() if path.endswith(end)), None)
        if order is None or mark is None:
            self._tell(http("404 Not Found", "application/json", b'{"error":{"message":"no such model or path"}}'))
            return
        turns, delay_ms, results = int(order[1]), int(order[2]), body.count(mark)
        if order[3]:
            reply_shape = Reply(account.requests, account.requests % (turns + 1) != 0, account.count(path, body))
        else:
            reply_shape = Reply(results, results < turns)
        reply = answer(path, reply_shape, stream=bool(WHOLE.search(body)))
        if delay_ms:
            asyncio.get_running_loop().call_later(delay_ms / 1000, self._tell, reply)
        else:
            self._tell(reply)

    def _tell(self, reply: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(reply)


async def serve() -> None:
    """Serve until stdin ends."""
    loop = asyncio.get_running_loop()
    accounts = [Account()]
    server = await loop.create_server(lambda: Connection(accounts), "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    gc.freeze()
    gc.disable()
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(serve())
