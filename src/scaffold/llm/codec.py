"""A wire's codec: our words into request bytes, stream events into our words. Pure; the transport is elsewhere."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from scaffold.core.conversation import AssistantMessage, Delta, Message, Request, StopReason
from scaffold.core.model import Usage


class Event(Struct, frozen=True):
    """One server-sent event: `name` is empty where the server gave none, `data` is its lines joined."""

    name: str
    data: str


class Target(Struct, frozen=True, kw_only=True):
    """Whom a request is for, as far as its bytes depend on it."""

    name: str
    """The model's name at its provider."""
    model: str
    """The whole model string; thoughts of another one are not sent."""
    max_output_tokens: int | None = None
    """The most the model may give; None where nobody knows."""
    thinking_tags: bool = False
    """Whether thoughts come as `<think>...</think>` within the text."""
    stream: bool = True


class Heard(Struct, frozen=True):
    """A whole reply as a wire gave it; `usage` counts tokens and this one request, its cost is None."""

    message: AssistantMessage
    usage: Usage
    stop: StopReason


class Reader(Protocol):
    """Reads one reply, event by event."""

    def feed(self, event: Event) -> Sequence[Delta]:
        """Return what the event adds; raises ModelTrouble if the event reports an error or cannot be read."""
        ...

    @property
    def complete(self) -> bool:
        """Tell whether the wire said that the reply is over; whatever may follow is of no interest."""
        ...

    def end(self) -> Heard:
        """Return the whole reply; ModelTrouble, transient, if the stream ended before the wire said it was over."""
        ...


class Codec(Protocol):
    """One wire. Holds no state: what it makes depends on its arguments alone."""

    @property
    def path(self) -> str:
        """Return where requests go, below the endpoint's base URL, e.g. `/v1/messages`."""
        ...

    def message(self, message: Message, target: Target) -> bytes:
        """Return a message as the wire's JSON objects joined by commas, empty if the wire has nothing to say for it."""
        ...

    def request(self, request: Request, pieces: Sequence[bytes], target: Target) -> bytes:
        """Return the request's body; `pieces` are the request's messages, each encoded by `message`."""
        ...

    def reader(self, target: Target) -> Reader:
        """Return a reader for one streamed reply."""
        ...

    def whole(self, body: bytes, target: Target) -> Heard:
        """Return the reply that was sent in one piece; ModelTrouble, transient, if it cannot be read."""
        ...
