"""What a model reads that writes the summary of the messages a compaction drops."""

from collections.abc import Iterator, Sequence

import msgspec

from scaffold.agent.context.compaction import MIN_LIMIT, NO_IMAGE, fit_messages, summary_size
from scaffold.agent.context.rolling_summary import SHARES, WRITTEN_LIMIT
from scaffold.agent.context.text_size import cut_middle, text_size
from scaffold.core.conversation import Image, Message, Text, Thinking, ToolCall, ToolResult, UserMessage

BYTES_PER_WORD = 7
"""Of English with the names and paths of code in it, spaces included."""
LABEL_SIZE = 40
"""Bytes set aside for the label of each message."""


def written_words(limit: int) -> int:
    """Return how many words the summary may have in a conversation of at most `limit` bytes."""
    room = summary_size(max(limit, MIN_LIMIT)) * SHARES["summary"]
    return int(min(room, WRITTEN_LIMIT) / BYTES_PER_WORD)


def dropped_text(summary: str, dropped: Sequence[Message], limit: int) -> str:
    """Return the dropped messages as one text in at most `limit` bytes, after the summary of those before them.

    As text, because providers accept calls only with their tools. The longest parts lose their middle first.
    """
    limit = max(limit, MIN_LIMIT)
    known = cut_middle(summary, limit // 4)
    earlier = f"# Summary of what came before, not to be repeated\n\n{known}\n\n" if summary else ""
    room = limit - text_size(earlier) - LABEL_SIZE * sum(len(message.parts) for message in dropped)
    lines = (line for message in fit_messages([*map(_readable, dropped)], room) for line in _lines(message))
    return cut_middle(earlier + "# The messages\n\n" + "\n\n".join(lines), limit)


def _readable(message: Message) -> Message:
    """Return the message without thoughts and images, whose place is marked."""
    shown = (part for part in message.parts if not isinstance(part, Thinking))
    return msgspec.structs.replace(
        message, parts=tuple(Text(NO_IMAGE) if isinstance(part, Image) else part for part in shown)
    )


def _lines(message: Message) -> Iterator[str]:
    who = "user" if isinstance(message, UserMessage) else "agent"
    for part in message.parts:
        match part:
            case Text(text=text):
                yield f"[{who}] {text}"
            case ToolCall(name=name, args=args):
                yield f"[call of {name}] {msgspec.json.encode(args).decode()}"
            case ToolResult(name=name, content=content, failed=failed):
                yield f"[{'failed ' if failed else ''}result of {name}] {content}"
