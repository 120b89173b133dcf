"""How long what is said is, in the bytes a model reads, and how to make it shorter."""

from collections.abc import Mapping
from typing import Any

import msgspec

from scaffold.core.conversation import Image, Message, Text, Thinking, ToolCall, ToolResult
from scaffold.core.legible import legible
from scaffold.llm.pieces import BYTES_PER_TOKEN, IMAGE_TOKENS

IMAGE_SIZE = IMAGE_TOKENS * BYTES_PER_TOKEN
"""Bytes an image counts for."""
LEFT_OUT = " ... {count} bytes left out ... "


def size_of(message: Message) -> int:
    """Return a message's size in bytes; an image counts as it does for models, not by its bytes."""
    return sum(_part_size(part) for part in message.parts)


def text_size(text: str) -> int:
    """Return the bytes of a text; half a surrogate pair counts as its escape, which is how it is told."""
    return len(text) if text.isascii() else len(legible(text).encode())


def args_size(args: Mapping[str, Any]) -> int:
    """Return the bytes of a call's arguments, or of a schema, as JSON."""
    return len(msgspec.json.encode(args))


def shortened(text: str, limit: int) -> str:
    """Return `text` in at most `limit` bytes: its head, its tail, and between them how much is missing."""
    size = text_size(text)
    if size <= limit:
        return text
    data = legible(text).encode()
    room = limit - len(LEFT_OUT.format(count=size))
    if room <= 0:
        return data[: max(limit, 0)].decode(errors="ignore")
    head, tail = data[: room - room // 3], data[size - room // 3 :]
    note = LEFT_OUT.format(count=size - room)
    return head.decode(errors="ignore") + note + tail.decode(errors="ignore")


def _part_size(part: Text | Image | Thinking | ToolCall | ToolResult) -> int:
    match part:
        case Text(text=text):
            return text_size(text)
        case Image():
            return IMAGE_SIZE
        case Thinking(text=text, seal=seal):
            return text_size(text) + len(seal)
        case ToolCall(name=name, args=args):
            return text_size(name) + args_size(args)
        case ToolResult(content=content):
            return text_size(content)
