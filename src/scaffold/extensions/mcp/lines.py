"""The lines that a server's program writes; one that is too long is passed over, and costs only what it answers."""

import re
from collections.abc import Iterator

from msgspec import Struct

from scaffold.extensions.plugins.frames import MAX_MESSAGE_BYTES, ProtocolBroken

MAX_PASSED_BYTES = 10 * MAX_MESSAGE_BYTES
"""A longer line ends the server."""
EDGE_BYTES = 200
_AT_START = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15})\s*,')
_AT_END = re.compile(rb'"id"\s*:\s*(\d{1,15})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')
"""Members of the message itself: within its result, another brace follows."""


class TooLong(Struct, frozen=True):
    """A line of more than `limit` bytes, of which only the number of the request that it answers is known."""

    request: int


class LineReader:
    """Cuts what a program writes into lines; holds at most `limit` bytes of one."""

    def __init__(self, limit: int = MAX_MESSAGE_BYTES, most: int = MAX_PASSED_BYTES) -> None:
        self._limit = limit
        self._most = most
        self._held = bytearray()
        self._passed = 0
        """Bytes of a line that is too long; `_held` has its edges then."""

    def feed(self, data: bytes) -> Iterator[bytes | TooLong]:
        """Yield the lines that are complete now, without empty ones.

        ProtocolBroken if one is far too long, or too long without the number of a request.
        """
        *ended, rest = data.split(b"\n")
        for piece in ended:
            self._hold(piece)
            if (line := self._take()) is not None:
                yield line
        self._hold(rest)

    def _hold(self, piece: bytes) -> None:
        if not self._passed and len(self._held) + len(piece) <= self._limit:
            self._held += piece
            return
        self._passed = (self._passed or len(self._held)) + len(piece)
        if self._passed > self._most:
            raise ProtocolBroken(f"it wrote a message of more than {self._most >> 20} MB")
        self._held += piece
        del self._held[EDGE_BYTES:-EDGE_BYTES]

    def _take(self) -> bytes | TooLong | None:
        line, passed = bytes(self._held), self._passed
        self._held.clear()
        self._passed = 0
        if not passed:
            return line if line.strip() else None
        found = _AT_START.match(line) or _AT_END.search(line)
        if found is None:
            raise ProtocolBroken(f"it wrote a message of more than {self._limit >> 20} MB")
        return TooLong(int(found[1]))
