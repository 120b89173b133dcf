"""Sizes of messages in the bytes a model reads, and shortening of texts."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from scaffold.core.conversation import AssistantMessage, Image, Message, Text, Thinking, ToolCall, ToolResult
from scaffold.core.printable_text import utf8_safe
from scaffold.llm.wire.codec import BYTES_PER_TOKEN, IMAGE_TOKENS

IMAGE_SIZE = IMAGE_TOKENS * BYTES_PER_TOKEN
"""Bytes counted for an image."""
OMISSION_NOTE = " ... {count} bytes omitted ... "


def message_size(message: Message) -> int:
    """Return a message's size in bytes; an image counts by its tokens, not by its bytes."""
    size = sum(part_size(part) for part in message.parts)
    return size + args_size(message.opaque) if isinstance(message, AssistantMessage) and message.opaque else size


def text_size(text: str) -> int:
    """Return the bytes of a text in UTF-8; a lone surrogate counts as its escape, which is how it is sent."""
    return len(text) if text.isascii() else len(utf8_safe(text).encode())


def args_size(args: Mapping[str, Any]) -> int:
    """Return the bytes of a call's arguments or of a schema as JSON."""
    return len(msgspec.json.encode(args))


def cut_middle(text: str, limit: int) -> str:
    """Return `text` in at most `limit` bytes: its head, a note about the bytes left out, and its tail."""
    size = text_size(text)
    if size <= limit:
        return text
    data = utf8_safe(text).encode()
    room = limit - len(OMISSION_NOTE.format(count=size))
    if room <= 0:
        return data[: max(limit, 0)].decode(errors="ignore")
    head, tail = data[: room - room // 3], data[size - room // 3 :]
    note = OMISSION_NOTE.format(count=size - room)
    return head.decode(errors="ignore") + note + tail.decode(errors="ignore")


def part_size(part: Text | Image | Thinking | ToolCall | ToolResult) -> int:
    """Return the bytes of a part of a message; an image counts by its tokens."""
    match part:
        case Text(text=text):
            return text_size(text)
        case Image():
            return IMAGE_SIZE
        case Thinking(text=text, signature=signature):
            return text_size(text) + len(signature)
        case ToolCall(name=name, args=args):
            return text_size(name) + args_size(args)
        case ToolResult(content=content):
            return text_size(content)


def plain_text(parts: Sequence[Text | Image]) -> str:
    """Return the texts among the parts, a line each."""
    return "\n".join(part.text for part in parts if isinstance(part, Text))


def without_surrogates(part: Text | Image) -> Text | Image:
    """Return the part as it can be sent and stored."""
    # Neither journal nor store nor wire formats can encode lone surrogates.
    return part if isinstance(part, Image) else msgspec.structs.replace(part, text=utf8_safe(part.text))
