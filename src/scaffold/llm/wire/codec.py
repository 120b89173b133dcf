"""The codec of a wire format: requests to bytes, stream events to deltas and replies. Pure; no I/O."""

import re
from collections.abc import Sequence
from operator import is_
from typing import Protocol

from msgspec import Struct, structs

from scaffold.core.conversation import AssistantMessage, Delta, Image, Message, Request, StopReason
from scaffold.core.model import Usage
from scaffold.llm.registry.thinking import UNKNOWN_THINKING, ThinkingSupport

OPAQUE = "opaque"
"""What the server wants back of its own replies, as one of the fields that it may refuse: signed thoughts, too."""


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
    stream: bool = True

    def without(self, field: str) -> "ModelTarget":
        """Return the target without an optional field."""
        return structs.replace(self, refused=self.refused | {field})

    def returns(self, message: AssistantMessage) -> bool:
        """Return True if what only the server of a reply understands goes back with it."""
        return message.model == self.model and OPAQUE not in self.refused


class WireReply(Struct, frozen=True):
    """A complete reply; `usage` has the tokens and counts one request, its cost is None."""

    message: AssistantMessage
    usage: Usage
    stop: StopReason


class ReplyReader(Protocol):
    """Reads one reply, event by event."""

    def feed(self, event: ServerSentEvent) -> Sequence[Delta]:
        """Return the deltas of the event; raises ModelError if it reports an error or cannot be parsed."""

    @property
    def complete(self) -> bool:
        """Return True if the wire ended the reply; later events can be ignored."""

    def end(self) -> WireReply:
        """Return the complete reply; ModelError, transient, if the stream ended before the reply did."""

    def whole(self, body: bytes) -> WireReply:
        """Return a reply that was not streamed; ModelError if it reports an error, or (transient) cannot be read."""


OptionalFields = Sequence[tuple[str, re.Pattern[str]]]
"""Fields a request can do without, each with the words by which errors name it; the most specific come first."""


def without_named_field(target: ModelTarget, error: str, optional: OptionalFields) -> ModelTarget | None:
    """Return the target without the first optional field that the error names; None if it names none."""
    named = (field for field, words in optional if field not in target.refused and words.search(error))
    field = next(named, None)
    return None if field is None else target.without(field)


class Codec(Protocol):
    """A stateless translator for one wire format; its results depend only on its arguments."""

    @property
    def path(self) -> str:
        """Return the path of requests below the endpoint's base URL, e.g. `/v1/messages`."""

    def message(self, message: Message, target: ModelTarget) -> bytes:
        """Return a message as the wire's JSON objects joined by commas; empty if it has no content for this wire."""

    def request(self, request: Request, pieces: Sequence[bytes], target: ModelTarget) -> bytes:
        """Return the request's body; `pieces` are the request's messages, each encoded by `message`."""

    def adapted(self, target: ModelTarget, error: str) -> ModelTarget | None:
        """Return the target as an endpoint would accept it that refused a request with `error`, the body of its answer.

        None if the error is about nothing that a request could do without.
        """

    def reader(self, target: ModelTarget) -> ReplyReader:
        """Return a reader for one streamed reply."""


BYTES_PER_TOKEN = 4
IMAGE_TOKENS = 1_500
"""Estimated bytes of a token and tokens of an image."""


class EncodedMessages:
    """The encoded messages of the latest request; the next request encodes only the appended messages.

    Messages are compared by identity, so a rewritten conversation is encoded again.
    """

    def __init__(self, codec: Codec, target: ModelTarget) -> None:
        self._codec = codec
        self._target = target
        self._messages: list[Message] = []
        self._encoded: list[bytes] = []
        self._tokens = 0

    def encode(self, messages: Sequence[Message]) -> Sequence[bytes]:
        """Return the encoded `messages`; the result is valid until the next call."""
        known = self._messages
        # By identity: comparing the contents of a long history would cost as much as encoding it.
        if len(known) > len(messages) or not all(map(is_, known, messages)):
            self._messages, self._encoded, self._tokens = [], [], 0
        for message in messages[len(self._messages) :]:
            piece = self._codec.message(message, self._target)
            self._messages.append(message)
            self._encoded.append(piece)
            # An image costs the same, whatever its size in bytes.
            images = [part for part in message.parts if isinstance(part, Image)]
            base64_size = sum((len(image.data) + 2) // 3 * 4 for image in images)
            self._tokens += max(0, len(piece) - base64_size) // BYTES_PER_TOKEN + len(images) * IMAGE_TOKENS
        return self._encoded

    def tokens(self, messages: Sequence[Message]) -> int:
        """Return the estimated tokens of `messages`."""
        self.encode(messages)
        return self._tokens
