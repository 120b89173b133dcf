"""The codec of a wire format: requests to bytes, stream events to deltas and replies. Pure; no I/O."""

import re
from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct, structs

from scaffold.core.conversation import AssistantMessage, Delta, Message, Request, StopReason
from scaffold.core.model import Usage
from scaffold.llm.registry.thinking import UNKNOWN_THINKING, ThinkingSupport


class ServerSentEvent(Struct, frozen=True):
    """One server-sent event: `name` is empty if the server sent none, `data` is its lines joined."""

    name: str
    data: str


class ModelTarget(Struct, frozen=True, kw_only=True):
    """The model a request is for, with all the properties that affect its bytes."""

    name: str
    """The model's name at its provider."""
    model: str
    """The whole model string; thoughts of other models are not sent to it."""
    max_output_tokens: int | None = None
    """The model's output limit; None if unknown."""
    thinking_tags: bool = False
    """True if thoughts arrive as `<think>...</think>` in the text."""
    thinking: ThinkingSupport = UNKNOWN_THINKING
    """How its thinking is controlled."""
    refused: frozenset[str] = frozenset()
    """Optional fields that its endpoint has refused, left out since then."""
    thoughts_required: bool = False
    """True if its endpoint refused a history in which a reply has no field for thoughts."""
    stream: bool = True


class WireReply(Struct, frozen=True):
    """A complete reply; `usage` has the tokens and counts one request, its cost is None."""

    message: AssistantMessage
    usage: Usage
    stop: StopReason


class ReplyReader(Protocol):
    """Reads one reply, event by event."""

    def feed(self, event: ServerSentEvent) -> Sequence[Delta]:
        """Return the deltas of the event; raises ModelError if it reports an error or cannot be parsed."""
        ...

    @property
    def complete(self) -> bool:
        """Return True if the wire ended the reply; later events can be ignored."""
        ...

    def end(self) -> WireReply:
        """Return the complete reply; ModelError, transient, if the stream ended before the reply did."""
        ...


OptionalFields = Sequence[tuple[str, re.Pattern[str]]]
"""Fields a request can do without, each with the words by which errors name it; the most specific come first."""


def without_named_field(target: ModelTarget, error: str, optional: OptionalFields) -> ModelTarget | None:
    """Return the target without the first optional field that the error names; None if it names none."""
    named = (field for field, words in optional if field not in target.refused and words.search(error))
    field = next(named, None)
    return None if field is None else structs.replace(target, refused=target.refused | {field})


class Codec(Protocol):
    """A stateless translator for one wire format; its results depend only on its arguments."""

    @property
    def path(self) -> str:
        """Return the path of requests below the endpoint's base URL, e.g. `/v1/messages`."""
        ...

    def message(self, message: Message, target: ModelTarget) -> bytes:
        """Return a message as the wire's JSON objects joined by commas; empty if it has no content for this wire."""
        ...

    def request(self, request: Request, pieces: Sequence[bytes], target: ModelTarget) -> bytes:
        """Return the request's body; `pieces` are the request's messages, each encoded by `message`."""
        ...

    def adapted(self, target: ModelTarget, error: str) -> ModelTarget | None:
        """Return the target as an endpoint would accept it that refused a request with `error`, the body of its answer.

        None if the error is about nothing that a request could do without.
        """
        ...

    def reader(self, target: ModelTarget) -> ReplyReader:
        """Return a reader for one streamed reply."""
        ...

    def whole(self, body: bytes, target: ModelTarget) -> WireReply:
        """Return a reply that was not streamed; ModelError, transient, if it cannot be parsed."""
        ...
