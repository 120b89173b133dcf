"""The line to live models: what is needed of the outside, as Protocols; the real wire is in `transport`."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from msgspec import Struct

from scaffold.core.ports import Throttle


class Deadlines(Struct, frozen=True, kw_only=True):
    """How long one try of a request may take, in seconds."""

    connect_s: float = 10.0
    """Until a connection stands."""
    idle_s: float = 60.0
    """Without a single byte."""
    total_s: float = 1800.0
    """For all of it, however lively."""


class Post(Struct, frozen=True, kw_only=True):
    """One request as it goes out; its `headers` hold a secret and are never shown."""

    url: str
    headers: Mapping[str, str]
    body: bytes
    deadlines: Deadlines

    def __repr__(self) -> str:
        return f"Post({self.url!r}, {len(self.body)} bytes)"


class Answer(Protocol):
    """What comes back: the head is here, the body comes while it is read."""

    @property
    def status(self) -> int:
        """Return the HTTP status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Return the header fields; names are looked up in small letters."""
        ...

    async def read(self) -> bytes:
        """Return what has come of the body, decompressed, as soon as there is any; empty once it is over.

        Raises ModelTrouble, transient, if it breaks off or takes too long.
        """
        ...


class Wire(Protocol):
    """Sends requests; shared by all models of a process."""

    def post(self, post: Post) -> AbstractAsyncContextManager[Answer]:
        """Return the answer's head, inside `async with`; leaving early closes the connection.

        Raises ModelTrouble, mostly transient, where there is no connection or no answer.
        """
        ...


class Line(Struct, frozen=True, kw_only=True):
    """All that a live model needs of the outside; one for all models of a process."""

    wire: Wire
    throttle: Throttle
    environ: Mapping[str, str]
    """Where keys and base URLs are looked up."""
    deadlines: Deadlines | None = None
    """None for what suits each provider."""

    def __repr__(self) -> str:
        return "Line()"
