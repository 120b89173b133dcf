"""A rolling summary made without a model: one entry for each request, reply and tool call, fewer of the older ones.

It is stored and shown as text, and parsed again for the next summary: entries are in order, each begins with
`- KIND: `, and its further lines are indented.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, get_args

from msgspec import Struct

from scaffold.agent.context.attachments import ATTACHMENT_PREFIX
from scaffold.agent.context.text_size import cut_middle, text_size
from scaffold.core.conversation import Image, Message, Text, ToolCall, ToolResult, UserMessage

EntryKind = Literal["user", "you", "tool"]
ENTRY_KINDS: tuple[EntryKind, ...] = get_args(EntryKind)
SHARES: Mapping[EntryKind, float] = {"user": 0.5, "you": 0.2, "tool": 0.3}
"""Share of the summary for each kind."""
NAMES: Mapping[EntryKind, str] = {"user": "requests", "you": "replies", "tool": "tool calls"}

TASK_LIMIT, USER_LIMIT, REPLY_LIMIT, ABOUT_LIMIT = 6_000, 2_000, 600, 120
"""Bytes of the first request, of a later one, of a reply, and of a tool call's argument or result."""

KEY_ARGUMENTS = ("command", "path", "pattern", "url", "query", "name")
"""Arguments that describe a call best, best first."""

_ENTRY = re.compile(r"^- (user|you|tool): ", re.MULTILINE)
_LEFT_OUT = re.compile(r"^- left out: (\d+) requests, (\d+) replies, (\d+) tool calls$", re.MULTILINE)
_NOTE_SIZE = 80


class SummaryEntry(Struct, frozen=True):
    """One request, reply or tool call."""

    kind: EntryKind
    text: str

    def __str__(self) -> str:
        return f"- {self.kind}: {self.text}".replace("\n", "\n  ")

    def within(self, limit: int) -> "SummaryEntry":
        """Return the entry in at most `limit` bytes, its middle cut if necessary, on one line if it has many lines."""
        if text_size(str(self)) <= limit:
            return self
        room = limit - len(f"- {self.kind}: ")
        # Each line but the first is indented. If that takes too much of the room, the lines are joined instead.
        indents = 2 * self.text.count("\n")
        text, room = (self.text, room - indents) if indents < room / 4 else (" ".join(self.text.split()), room)
        return SummaryEntry(self.kind, cut_middle(text, room))


def extend_summary(earlier: str, messages: Sequence[Message], limit: int) -> str:
    """Return a summary of `earlier` and of the `messages` after it, in at most `limit` bytes.

    It keeps the first request and the newest entries of each kind, and counts the entries left out.
    """
    entries = summary_entries(earlier, messages)
    # The note about what is left out is written last, when the counts are known.
    room = limit - _NOTE_SIZE
    chosen: dict[int, SummaryEntry] = {}
    for kind in ENTRY_KINDS:
        chosen |= _chosen([(at, entry) for at, entry in enumerate(entries) if entry.kind == kind], room * SHARES[kind])
    dropped = _left_out_counts(earlier) + Counter(entry.kind for at, entry in enumerate(entries) if at not in chosen)
    note = [f"- left out: {', '.join(f'{dropped[kind]} {NAMES[kind]}' for kind in ENTRY_KINDS)}"] if dropped else []
    return "\n".join([*note, *(str(chosen[at]) for at in sorted(chosen))])


def summary_entries(summary: str, messages: Sequence[Message]) -> list[SummaryEntry]:
    """Return the entries of a summary and then those of the messages after it, in order."""
    return [*_read(summary), *_entries_from_messages(messages)]


def describe_call(call: ToolCall, result: ToolResult | None) -> str:
    """Return a call and its outcome as one line, e.g. ``shell `make`: failed: exit code 2 after 1.0 s``."""
    about = next((_line(str(call.args[name])) for name in KEY_ARGUMENTS if name in call.args), "")
    named = f"{call.name} `{about}`" if about else call.name
    if result is None:
        return f"{named}: not answered"
    outcome = _line(result.content.lstrip().split("\n", 1)[0])
    return f"{named}: {'failed: ' if result.failed else ''}{outcome}".rstrip()


def plain_text(message: Message) -> str:
    """Return the text of a message, with a placeholder for each image and attached file."""
    shown = [part for part in message.parts if isinstance(part, Text | Image)]
    return "\n".join(_words(part, first=at == 0) for at, part in enumerate(shown)).strip()


def _entries_from_messages(messages: Sequence[Message]) -> Iterator[SummaryEntry]:
    results = {part.call_id: part for message in messages for part in message.parts if isinstance(part, ToolResult)}
    for message in messages:
        words = plain_text(message)
        if isinstance(message, UserMessage):
            if words:
                yield SummaryEntry("user", words)
            continue
        if words:
            yield SummaryEntry("you", words).within(REPLY_LIMIT)
        for call in message.tool_calls:
            yield SummaryEntry("tool", describe_call(call, results.get(call.id)))


def _words(part: Text | Image, *, first: bool) -> str:
    if isinstance(part, Image):
        return "[an image]"
    if part.text.startswith(ATTACHMENT_PREFIX) and not first:
        return f"[{part.text.split(chr(10), 1)[0]}]"
    return part.text


def _line(text: str) -> str:
    return cut_middle(" ".join(text.split()), ABOUT_LIMIT)


def _chosen(entries: Sequence[tuple[int, SummaryEntry]], room: float) -> dict[int, SummaryEntry]:
    """Return the entries of one kind that fit: the first request, in at most half the room, then the newest."""
    chosen: dict[int, SummaryEntry] = {}
    if entries and entries[0][1].kind == "user":
        at, task = entries[0]
        chosen[at] = task.within(min(TASK_LIMIT, int(room / 2)))
        room -= text_size(str(chosen[at])) + 1
        entries = entries[1:]
    for at, entry in reversed(entries):
        short = entry.within(min(USER_LIMIT, int(room) - 1)) if at == entries[-1][0] else entry.within(USER_LIMIT)
        room -= text_size(str(short)) + 1
        if room < 0:
            break
        chosen[at] = short
    return chosen


def _read(summary: str) -> list[SummaryEntry]:
    """Return the entries of a summary; empty for any other text."""
    _, *found = _ENTRY.split(summary)
    texts = (text.removesuffix("\n").replace("\n  ", "\n") for text in found[1::2])
    return [SummaryEntry(kind, text) for kind, text in zip(found[::2], texts, strict=True)]  # type: ignore[arg-type]


def _left_out_counts(summary: str) -> Counter[EntryKind]:
    found = _LEFT_OUT.search(summary)
    return Counter(dict(zip(ENTRY_KINDS, map(int, found.groups()), strict=True))) if found else Counter()
