"""A rolling summary made by code: what was asked, said and done, an entry each; the older, the fewer.

It is a text, for it is stored and shown as one, and it can be read back, for the next summary folds it in: entries
stand in order, each begins with `- KIND: `, its further lines are indented.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, get_args

from msgspec import Struct

from scaffold.agent.attachments import ATTACHED
from scaffold.agent.measure import shortened, text_size
from scaffold.core.conversation import Image, Message, Text, ToolCall, ToolResult, UserMessage

Kind = Literal["user", "you", "tool"]
KINDS: tuple[Kind, ...] = get_args(Kind)
SHARES: Mapping[Kind, float] = {"user": 0.5, "you": 0.2, "tool": 0.3}
"""How much of a summary each kind may take."""
NAMES: Mapping[Kind, str] = {"user": "requests", "you": "replies", "tool": "tool calls"}

TASK_LIMIT, USER_LIMIT, REPLY_LIMIT, ABOUT_LIMIT = 6_000, 2_000, 600, 120
"""Bytes of the first request, of a later one, of a reply, of what a tool was called with or answered."""

TELLING = ("command", "path", "pattern", "url", "query", "name")
"""Arguments that say best what a call was about."""

_ENTRY = re.compile(r"^- (user|you|tool): ", re.MULTILINE)
_LEFT_OUT = re.compile(r"^- left out: (\d+) requests, (\d+) replies, (\d+) tool calls$", re.MULTILINE)
_NOTE_SIZE = 80


class Entry(Struct, frozen=True):
    """One thing that was asked, said or done."""

    kind: Kind
    text: str

    def __str__(self) -> str:
        return f"- {self.kind}: {self.text}".replace("\n", "\n  ")

    def within(self, limit: int) -> "Entry":
        """Return the entry in at most `limit` bytes: the same or without its middle, on one line if it has many."""
        if text_size(str(self)) <= limit:
            return self
        room = limit - len(f"- {self.kind}: ")
        indents = 2 * self.text.count("\n")
        text, room = (self.text, room - indents) if indents < room / 4 else (" ".join(self.text.split()), room)
        return Entry(self.kind, shortened(text, room))


def summarised(earlier: str, messages: Sequence[Message], limit: int) -> str:
    """Return a summary of what `earlier` sums up and of `messages` after it, in at most `limit` bytes.

    The first request stays, of all else the newest; what had to go is counted.
    """
    entries = entries_of(earlier, messages)
    room = limit - _NOTE_SIZE
    chosen: dict[int, Entry] = {}
    for kind in KINDS:
        chosen |= _chosen([(at, entry) for at, entry in enumerate(entries) if entry.kind == kind], room * SHARES[kind])
    gone = _gone(earlier) + Counter(entry.kind for at, entry in enumerate(entries) if at not in chosen)
    note = [f"- left out: {', '.join(f'{gone[kind]} {NAMES[kind]}' for kind in KINDS)}"] if gone else []
    return "\n".join([*note, *(str(chosen[at]) for at in sorted(chosen))])


def entries_of(summary: str, messages: Sequence[Message]) -> list[Entry]:
    """Return what a summary tells and then what the messages after it do, in order."""
    return [*_read(summary), *_told(messages)]


def told(call: ToolCall, result: ToolResult | None) -> str:
    """Return a call and its outcome in a line, e.g. ``shell `make`: failed: exit code 2 after 1.0 s``."""
    about = next((_line(str(call.args[name])) for name in TELLING if name in call.args), "")
    named = f"{call.name} `{about}`" if about else call.name
    if result is None:
        return f"{named}: not answered"
    outcome = _line(result.content.lstrip().split("\n", 1)[0])
    return f"{named}: {'failed: ' if result.failed else ''}{outcome}".rstrip()


def words_of(message: Message) -> str:
    """Return what a message says in plain words; pictures and attached files are mentioned."""
    said = [part for part in message.parts if isinstance(part, Text | Image)]
    return "\n".join(_words(part, first=at == 0) for at, part in enumerate(said)).strip()


def _told(messages: Sequence[Message]) -> Iterator[Entry]:
    results = {part.call_id: part for message in messages for part in message.parts if isinstance(part, ToolResult)}
    for message in messages:
        words = words_of(message)
        if isinstance(message, UserMessage):
            if words:
                yield Entry("user", words)
            continue
        if words:
            yield Entry("you", words).within(REPLY_LIMIT)
        for call in message.tool_calls:
            yield Entry("tool", told(call, results.get(call.id)))


def _words(part: Text | Image, *, first: bool) -> str:
    if isinstance(part, Image):
        return "[an image]"
    if part.text.startswith(ATTACHED) and not first:
        return f"[{part.text.split(chr(10), 1)[0]}]"
    return part.text


def _line(text: str) -> str:
    return shortened(" ".join(text.split()), ABOUT_LIMIT)


def _chosen(entries: Sequence[tuple[int, Entry]], room: float) -> dict[int, Entry]:
    """Return which entries of one kind have room: a first request, at half of it if need be, then from the newest."""
    chosen: dict[int, Entry] = {}
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


def _read(summary: str) -> list[Entry]:
    """Return the entries of a summary; a text that is none has none."""
    _, *found = _ENTRY.split(summary)
    texts = (text.removesuffix("\n").replace("\n  ", "\n") for text in found[1::2])
    return [Entry(kind, text) for kind, text in zip(found[::2], texts, strict=True)]  # type: ignore[arg-type]


def _gone(summary: str) -> Counter[Kind]:
    found = _LEFT_OUT.search(summary)
    return Counter(dict(zip(KINDS, map(int, found.groups()), strict=True))) if found else Counter()
