"""A loopback server's answer to one request, on any wire: in Python, or in a YAML script."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

Protocol = Literal["anthropic", "chat", "responses"]


class Call(Struct, frozen=True, forbid_unknown_fields=True):
    """A tool call; without an id it gets a unique one."""

    name: str
    args: dict[str, Any] = {}
    id: str | None = None


class Used(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tokens: `input` is the total, `cached` and `written` (only Anthropic reports it) are parts of it."""

    input: int = 100
    cached: int = 0
    written: int = 0
    output: int = 10


class Turn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One answer. By default a valid one; the later fields describe its faults."""

    text: str = ""
    thinking: str = ""
    calls: tuple[Call, ...] = ()
    usage: Used = field(default_factory=Used)
    stop: Literal["end", "tool_calls", "max_tokens", "refused"] | None = None
    """None for what fits: `tool_calls` where there are calls."""
    times: int = 1
    """How many requests in a row it answers."""
    delay_s: float = 0.0
    """Before the first byte."""

    status: int = 200
    """Any other one comes with an error of the wire, whose kind and message `error` may give."""
    error: tuple[str, str] | None = None
    """Kind and message. At status 200 it is told in-band, after the words and before the end."""
    headers: dict[str, str] = {}
    """More header fields, e.g. `Retry-After`."""
    body: str | None = None
    """These very words instead of all that: garbage, a web page."""
    content_type: str | None = None
    compressed: bool = False
    """The body is sent with gzip, in one piece."""

    cut_at: int | None = None
    """The connection is reset after so many bytes of the body; -1: before the head."""
    stall_at: int | None = None
    """Nothing comes any more after so many bytes of the body, and the connection stays open; -1: not even a head."""
    keep_alive: str = ""
    """Sent several times a second instead of nothing where the body stalls: a comment, an event without news."""
    drip_s: float = 0.0
    """Seconds between any two of the body's events."""
    endless: bool = False
    """The words are said again and again."""
    framing: Literal["chunked", "close"] = "chunked"
    """How a stream's end is told: `close` leaves it to the end of the connection, as old servers do."""


class Received(Struct, frozen=True, kw_only=True):
    """One request as received; header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """Return the decoded body."""
        return msgspec.json.decode(self.body)


Script = Sequence[Turn] | Callable[[Received], Turn]
"""Turns in the order of the requests, or who thinks of one for each request."""
