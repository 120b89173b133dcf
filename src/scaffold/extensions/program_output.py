"""What a plugin or an MCP server's program writes: JSON-RPC, one message a line. None of it is trusted."""

import re
from collections.abc import Callable, Iterator

from msgspec import Struct

from scaffold.host.process.command_runner import CommandResult

MAX_MESSAGE_BYTES = 10 * 2**20
"""Limit of one message, in either direction."""
EDGE_BYTES = 200
_AT_START = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15})\s*,')
# Members of the message itself: within its result, another brace follows.
_AT_END = re.compile(rb'"id"\s*:\s*(\d{1,15})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')


class ProtocolBroken(Exception):
    """A program wrote what cannot be a message; the text says what."""


class TooLong(Struct, frozen=True):
    """A line of more than `limit` bytes, of which only the number of the request that it answers is known."""

    request: int


class LineReader:
    """Cuts what a program writes into lines; holds at most `limit` bytes of one."""

    def __init__(self, limit: int = MAX_MESSAGE_BYTES, most: int = MAX_MESSAGE_BYTES) -> None:
        """Pass over a line of more than `limit` bytes; raise ProtocolBroken for one of more than `most`."""
        self._limit = limit
        self._most = most
        self._held = bytearray()
        self._passed = 0  # bytes of a line that is too long; `_held` has its edges then

    def feed(self, data: bytes) -> Iterator[bytes | TooLong]:
        """Yield complete lines that are not empty; ProtocolBroken if one is too long and answers no request."""
        *ended, rest = data.split(b"\n")
        for piece in ended:
            self._hold_piece(piece)
            if (line := self._end_line()) is not None:
                yield line
        self._hold_piece(rest)

    def _hold_piece(self, piece: bytes) -> None:
        if not self._passed and len(self._held) + len(piece) <= self._limit:
            self._held += piece
            return
        self._passed = (self._passed or len(self._held)) + len(piece)
        if self._passed > self._most:
            raise ProtocolBroken(f"it wrote a message of more than {self._most >> 20} MB")
        self._held += piece
        del self._held[EDGE_BYTES:-EDGE_BYTES]

    def _end_line(self) -> bytes | TooLong | None:
        line, passed = bytes(self._held), self._passed
        self._held.clear()
        self._passed = 0
        if not passed:
            return line if line.strip() else None
        found = _AT_START.match(line) or _AT_END.search(line)
        if found is None:
            raise ProtocolBroken(f"it wrote a message of more than {self._limit >> 20} MB")
        return TooLong(int(found[1]))


class CallbackSink:
    """Passes output on as it arrives."""

    def __init__(self, take: Callable[[bytes], object]) -> None:
        self._take = take

    def write(self, data: bytes, /) -> None:
        """Pass on the next bytes."""
        self._take(data)


def exit_reason(result: CommandResult, stderr: bytes) -> str:
    """Return how a program ended, with the last line that it wrote to `stderr`."""
    how = f"signal {result.signal}" if result.signal else f"exit code {result.exit_code}"
    if result.too_many_processes:
        how = "it started too many processes"
    lines = stderr.decode(errors="replace").strip().splitlines()
    return f"its process ended ({how}{f': {lines[-1]}' if lines else ''})"
