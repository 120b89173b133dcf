"""Compaction of a conversation: what can be read again goes first; then a summary replaces all but the end."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from scaffold.agent.context.call_summary import NO_EFFECTS, ToolEffects
from scaffold.agent.context.rolling_summary import SHARES, WRITTEN_LIMIT, extend_summary
from scaffold.agent.context.text_size import IMAGE_SIZE, cut_middle, message_size, text_size
from scaffold.core.conversation import (
    NO_IMAGE,
    AssistantMessage,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UserMessage,
    without_images,
)
from scaffold.core.printable_text import utf8_safe

COMPACT_ABOVE, COMPACT_TO = 0.8, 0.5
"""Shares of the window: a conversation above the first is shortened to the second."""
SUMMARY_SIZE = 64_000  # most bytes of a summary; with a small limit, a quarter of the limit
KEPT_STEPS = 3  # the results of these last replies stay, even those that can be had again
RESULT_HEAD = 200  # bytes that stay of a result that can be had again; below twice as much all stays
AGAIN = " ... {count} bytes were here; call the tool again to see them"
MIN_LIMIT = 2_000  # smallest size in bytes of a useful conversation

BYTES_PER_WORD = 7  # of English with the names and paths of code in it, spaces included
LABEL_SIZE = 40  # bytes set aside for the label of each message
HEADING = "This conversation exceeded your context window; this summarises the earlier part. Read again what you need."


class CompactionResult(Struct, frozen=True):
    """A compacted conversation."""

    summary: str
    dropped: int
    """Number of messages newly replaced by the summary."""
    kept: tuple[Message, ...]
    """The later messages; long ones may have been cut, and results that can be had again shortened."""


def compact_messages(
    messages: Sequence[Message], summary: str, limit: int, effects: ToolEffects = NO_EFFECTS, written: str = ""
) -> CompactionResult:
    """Return the conversation in at most `limit` bytes if possible, as `message_size` counts them.

    A conversation that fits is unchanged. A call is never separated from its result: the kept part starts with a reply
    or with a prompt of the user. `written` is what a model wrote about the messages that are dropped.
    """
    limit = max(limit, MIN_LIMIT)
    sizes = [message_size(message) for message in messages]
    before = text_size(summary_prompt(summary)) if summary else 0
    if before + sum(sizes) <= limit:
        return CompactionResult(summary, 0, tuple(messages))
    # The summary is made of the messages as they were: a result's first line may be all that it needs.
    whole, messages = messages, _without_readable(messages, effects)
    sizes = [message_size(message) for message in messages]
    if before + sum(sizes) <= limit:
        return CompactionResult(summary, 0, tuple(messages))
    allowance = summary_size(limit)
    # Room for the summary is set aside before it is known how long it will be.
    cut = _first_kept(messages, sizes, limit - allowance)
    if cut or before > allowance:
        summary = extend_summary(summary, whole[:cut], allowance - text_size(summary_prompt("")), effects, written)
    rest = limit - (text_size(summary_prompt(summary)) if summary else 0)
    return CompactionResult(summary, cut, fit_messages(messages[cut:], rest))


def summary_size(limit: int) -> int:
    """Return the most bytes of the summary in a conversation of at most `limit` bytes."""
    return min(SUMMARY_SIZE, limit // 4)


def summary_prompt(summary: str) -> str:
    """Return the text shown to a model in place of the dropped messages."""
    return f"{HEADING}\n\n{summary}"


def fit_messages(messages: Sequence[Message], limit: int) -> tuple[Message, ...]:
    """Return the messages in at most `limit` bytes: cut the middle of the longest texts, drop images if necessary.

    Thinking parts stay unchanged: providers verify them.
    """
    size = sum(map(message_size, messages))
    if size <= limit:
        return tuple(messages)
    # Images cannot be shortened: if they take more than half of the room, they go before any text is cut.
    images = sum(isinstance(part, Image) for message in messages for part in message.parts)
    if images * IMAGE_SIZE * 2 > limit:
        messages = [without_images(message) for message in messages]
        size = sum(map(message_size, messages))
    sizes: list[int] = []

    def note(text: str) -> str:
        sizes.append(text_size(text))
        return text

    for message in messages:
        _map_parts(message, note)
    cap = _text_limit(sorted(sizes), limit - (size - sum(sizes)))
    return tuple(_map_parts(message, lambda text: cut_middle(text, cap)) for message in messages)


def _without_readable(messages: Sequence[Message], effects: ToolEffects) -> list[Message]:
    # Results of the last replies stay whole: the model is still working with them.
    replies = [at for at, message in enumerate(messages) if isinstance(message, AssistantMessage)]
    until = replies[-KEPT_STEPS] if len(replies) >= KEPT_STEPS else 0
    return [*(_with_heads(message, effects) for message in messages[:until]), *messages[until:]]


def _with_heads(message: Message, effects: ToolEffects) -> Message:
    parts: list[Text | Image | Thinking | ToolCall | ToolResult] = []
    for part in message.parts:
        can_shrink = isinstance(part, ToolResult) and part.name in effects.reading
        if isinstance(part, ToolResult) and can_shrink and (size := text_size(part.content)) > 2 * RESULT_HEAD:
            head = utf8_safe(part.content).encode()[:RESULT_HEAD].decode(errors="ignore")
            parts.append(msgspec.structs.replace(part, content=head + AGAIN.format(count=size - RESULT_HEAD)))
        else:
            parts.append(part)
    return message if tuple(parts) == message.parts else msgspec.structs.replace(message, parts=tuple(parts))


def _first_kept(messages: Sequence[Message], sizes: Sequence[int], room: int) -> int:
    # Keeps as many messages as fit, but at least the last step.
    size, cut = 0, None
    for index in range(len(messages) - 1, -1, -1):
        size += sizes[index]
        # The last step is kept even if it is too long; `fit_messages` then cuts its texts.
        if cut is not None and size > room:
            break
        message = messages[index]
        # A result belongs to the call before it, so nothing kept may begin with one.
        if isinstance(message, AssistantMessage) or not any(isinstance(part, ToolResult) for part in message.parts):
            cut = index
    return cut or 0


def _text_limit(sizes: Sequence[int], room: int) -> int:
    # One limit for all texts, so that the longest lose most; `sizes` ascend.
    for index, size in enumerate(sizes):
        # Texts shorter than an equal share leave the rest of theirs to the longer ones.
        share = max(room, 0) // (len(sizes) - index)
        if size > share:
            return share
        room -= size
    return max(sizes, default=0)


def _map_parts(message: Message, change: Callable[[str], str]) -> Message:
    parts = tuple(_mapped_part(part, change) for part in message.parts)
    return msgspec.structs.replace(message, parts=parts)


def _mapped_part(
    part: Text | Image | Thinking | ToolCall | ToolResult, change: Callable[[str], str]
) -> Text | Image | Thinking | ToolCall | ToolResult:
    match part:
        case Text(text=text):
            return msgspec.structs.replace(part, text=change(text))
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
    lines = []
    for message in fit_messages([*map(_text_only, dropped)], room):
        who = "user" if isinstance(message, UserMessage) else "agent"
        for part in message.parts:
            match part:
                case Text(text=text):
                    lines.append(f"[{who}] {text}")
                case ToolCall(name=name, args=args):
                    lines.append(f"[call of {name}] {msgspec.json.encode(args).decode()}")
                case ToolResult(name=name, content=content, failed=failed):
                    lines.append(f"[{'failed ' if failed else ''}result of {name}] {content}")
    return cut_middle(earlier + "# The messages\n\n" + "\n\n".join(lines), limit)


def _text_only(message: Message) -> Message:
    # Providers verify thoughts and charge for images, and neither helps a summary.
    shown = (part for part in message.parts if not isinstance(part, Thinking))
    return msgspec.structs.replace(
        message, parts=tuple(Text(NO_IMAGE) if isinstance(part, Image) else part for part in shown)
    )
