"""Shortening a conversation: the end stays as it was said, a summary stands for the rest. No model is asked."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from scaffold.agent.measure import IMAGE_SIZE, shortened, size_of, text_size
from scaffold.agent.summary import summarised
from scaffold.core.conversation import AssistantMessage, Image, Message, Text, Thinking, ToolCall, ToolResult

FULL, AFTERWARDS = 0.8, 0.5
"""Shares of the window: a conversation that takes more than the first is shortened to the second."""
SUMMARY_SIZE = 24_000
"""Bytes of a summary, at the most; where room is short, a quarter of it."""
LEAST_LIMIT = 2_000
"""The size below which there is nothing left that would be worth saying."""

HEADING = "This conversation was longer than your window; what came before is told in short. Read again what you need."
NO_IMAGE = "[an image was here]"


class Compacted(Struct, frozen=True):
    """What stands for a conversation from now on."""

    summary: str
    dropped: int
    """How many messages the summary newly stands for."""
    kept: tuple[Message, ...]
    """The messages after those; long ones may have been cut."""


def compacted(messages: Sequence[Message], summary: str, limit: int) -> Compacted:
    """Return the conversation at a size of at most `limit`, if there is any way, sizes in bytes as `size_of` counts.

    What fits already stays as it is. A call is never parted from its result: what is kept begins with a reply, or
    with words of the user.
    """
    limit = max(limit, LEAST_LIMIT)
    sizes = [size_of(message) for message in messages]
    before = text_size(retold(summary)) if summary else 0
    if before + sum(sizes) <= limit:
        return Compacted(summary, 0, tuple(messages))
    allowance = min(SUMMARY_SIZE, limit // 4)
    cut = _cut(messages, sizes, limit - allowance)
    if cut or before > allowance:
        summary = summarised(summary, messages[:cut], allowance - text_size(retold("")))
    rest = limit - (text_size(retold(summary)) if summary else 0)
    return Compacted(summary, cut, fitted(messages[cut:], rest))


def retold(summary: str) -> str:
    """Return the words a model is shown for what is not kept."""
    return f"{HEADING}\n\n{summary}"


def fitted(messages: Sequence[Message], limit: int) -> tuple[Message, ...]:
    """Return the messages at a size of at most `limit`: the longest texts lose their middles, images go if they must.

    Thoughts stay as they are: providers check them.
    """
    size = sum(map(size_of, messages))
    if size <= limit:
        return tuple(messages)
    if sum(map(_images, messages)) * IMAGE_SIZE * 2 > limit:
        messages = [_without_images(message) for message in messages]
        size = sum(map(size_of, messages))
    texts = sorted(text_size(text) for message in messages for text in _texts(message))
    cap = _cap(texts, limit - (size - sum(texts)))
    return tuple(_mapped(message, lambda text: shortened(text, cap)) for message in messages)


def _cut(messages: Sequence[Message], sizes: Sequence[int], room: int) -> int:
    """Return from which message on everything is kept: as many as have room, but never less than the last step."""
    size, cut = 0, None
    for index in range(len(messages) - 1, -1, -1):
        size += sizes[index]
        if cut is not None and size > room:
            break
        if _may_begin(messages[index]):
            cut = index
    return cut or 0


def _may_begin(message: Message) -> bool:
    return isinstance(message, AssistantMessage) or not any(isinstance(part, ToolResult) for part in message.parts)


def _cap(sizes: Sequence[int], room: int) -> int:
    """Return how long each text may be so that all together have `room`; `sizes` ascending."""
    for index, size in enumerate(sizes):
        share = max(room, 0) // (len(sizes) - index)
        if size > share:
            return share
        room -= size
    return max(sizes, default=0)


def _images(message: Message) -> int:
    return sum(isinstance(part, Image) for part in message.parts)


def _without_images(message: Message) -> Message:
    if isinstance(message, AssistantMessage) or not _images(message):
        return message
    parts = tuple(Text(NO_IMAGE) if isinstance(part, Image) else part for part in message.parts)
    return msgspec.structs.replace(message, parts=parts)


def _texts(message: Message) -> list[str]:
    """Return every text of a message that may be cut."""
    found: list[str] = []

    def note(text: str) -> str:
        found.append(text)
        return text

    _mapped(message, note)
    return found


def _mapped(message: Message, change: Callable[[str], str]) -> Message:
    parts = tuple(_mapped_part(part, change) for part in message.parts)
    return msgspec.structs.replace(message, parts=parts)


def _mapped_part(
    part: Text | Image | Thinking | ToolCall | ToolResult, change: Callable[[str], str]
) -> Text | Image | Thinking | ToolCall | ToolResult:
    match part:
        case Text(text=text):
            return Text(change(text))
        case ToolResult(content=content):
            return msgspec.structs.replace(part, content=change(content))
        case ToolCall(args=args):
            return msgspec.structs.replace(part, args=_mapped_args(args, change))
        case Image() | Thinking():
            return part


def _mapped_args(args: Mapping[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    return {name: _mapped_value(value, change) for name, value in args.items()}


def _mapped_value(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return _mapped_args(value, change)
    if isinstance(value, list | tuple):
        return [_mapped_value(each, change) for each in value]
    return value
