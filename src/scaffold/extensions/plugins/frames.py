"""The frames of the plugin protocol: JSON-RPC 2.0, one message a line. Nothing a plugin writes is trusted."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

MAX_MESSAGE_BYTES = 10 * 2**20
"""Of one message, in either direction."""


class ProtocolBroken(Exception):
    """A plugin wrote what no answer can be; the text says what."""


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


def request_frame(request_id: int, method: str, params: Mapping[str, Any]) -> bytes:
    """Return the frame of a request."""
    message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
    return msgspec.json.encode(message) + b"\n"


def read_frame(line: bytes) -> PluginAnswer | PluginRefusal | Notice:
    """Return the message in a line; ProtocolBroken if it is none."""
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


class FrameReader:
    """Cuts what a plugin writes into lines."""

    def __init__(self, limit: int = MAX_MESSAGE_BYTES) -> None:
        self._limit = limit
        self._held = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that are complete now, without empty ones; ProtocolBroken if one exceeds the limit."""
        *ended, rest = data.split(b"\n")
        lines = []
        for piece in ended:
            self._hold(piece)
            lines.append(bytes(self._held))
            self._held.clear()
        self._hold(rest)
        return [line for line in lines if line.strip()]

    def _hold(self, piece: bytes) -> None:
        if len(self._held) + len(piece) > self._limit:
            raise ProtocolBroken(f"it wrote a message of more than {self._limit >> 20} MB")
        self._held += piece
