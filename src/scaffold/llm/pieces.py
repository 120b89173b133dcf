"""A conversation's messages as a wire writes them: encoded once each, appended to, never walked again."""

from collections.abc import Sequence
from operator import is_

from scaffold.core.conversation import Image, Message
from scaffold.llm.codec import Codec, Target

BYTES_PER_TOKEN = 4
IMAGE_TOKENS = 1_500
"""What a token and a picture are taken for, where nobody counted."""


class Pieces:
    """The encoded messages of the latest request; the next one encodes what was appended to them.

    Messages are compared by identity, so a conversation that was rewritten is encoded again from there on.
    """

    def __init__(self, codec: Codec, target: Target) -> None:
        self._codec = codec
        self._target = target
        self._messages: list[Message] = []
        self._encoded: list[bytes] = []
        self._tokens = 0

    def of(self, messages: Sequence[Message]) -> Sequence[bytes]:
        """Return the encoded `messages`; they are the caller's to read until the next call."""
        if not self._begins(messages):
            self._forget()
        for message in messages[len(self._messages) :]:
            self._append(message)
        return self._encoded

    def tokens(self, messages: Sequence[Message]) -> int:
        """Return how many tokens `messages` have, roughly."""
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
    """Return a guess by the bytes of the piece; pictures count by the piece, not by their bytes."""
    images = [part for part in message.parts if isinstance(part, Image)]
    base64_size = sum((len(image.data) + 2) // 3 * 4 for image in images)
    return max(0, len(piece) - base64_size) // BYTES_PER_TOKEN + len(images) * IMAGE_TOKENS
