"""A conversation's encoded messages: each is encoded once, and new ones are appended."""

from collections.abc import Sequence
from operator import is_

from scaffold.core.conversation import Image, Message
from scaffold.llm.wire.codec import Codec, ModelTarget

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

    def of(self, messages: Sequence[Message]) -> Sequence[bytes]:
        """Return the encoded `messages`; the result is valid until the next call."""
        if not self._begins(messages):
            self._forget()
        for message in messages[len(self._messages) :]:
            self._append(message)
        return self._encoded

    def tokens(self, messages: Sequence[Message]) -> int:
        """Return the estimated tokens of `messages`."""
        self.of(messages)
        return self._tokens

    def _begins(self, messages: Sequence[Message]) -> bool:
        known = self._messages
        return len(known) <= len(messages) and all(map(is_, known, messages))

    def _forget(self) -> None:
        self._messages, self._encoded = [], []
        self._tokens = 0

    def _append(self, message: Message) -> None:
        piece = self._codec.message(message, self._target)
        self._messages.append(message)
        self._encoded.append(piece)
        self._tokens += _tokens(message, piece)


def _tokens(message: Message, piece: bytes) -> int:
    """Return an estimate from the encoded size; each image counts as IMAGE_TOKENS, whatever its size."""
    images = [part for part in message.parts if isinstance(part, Image)]
    base64_size = sum((len(image.data) + 2) // 3 * 4 for image in images)
    return max(0, len(piece) - base64_size) // BYTES_PER_TOKEN + len(images) * IMAGE_TOKENS
