"""A rolling summary: one entry for each request, finding, reply and tool call, fewer of the older ones.

It is stored and shown as text, and parsed again for the next summary: entries are in order, each begins with
`- KIND: `, and its further lines are indented. A line in which the model states a finding, as its prompt asks it to,
is an entry of its own; findings are the last to be left out.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, get_args

from msgspec import Struct

from scaffold.agent.context.attachments import ATTACHMENT_PREFIX
from scaffold.agent.context.call_summary import NO_EFFECTS, ToolEffects, call_kind, summarise_call
from scaffold.agent.context.text_size import cut_middle, text_size
from scaffold.agent.deferred_tools import loaded_groups
from scaffold.core.conversation import Image, Message, Text, ToolResult, UserMessage

EntryKind = Literal["user", "summary", "finding", "you", "change", "tool", "read"]
# In the order in which they get room; what one does not use is left to the next.
ENTRY_KINDS: tuple[EntryKind, ...] = get_args(EntryKind)
SHARES: Mapping[EntryKind, float] = {
    "user": 0.25,
    "summary": 0.25,
    "finding": 0.2,
    "you": 0.1,
    "change": 0.1,
    "tool": 0.07,
    "read": 0.03,
}
"""Share of the summary for each kind."""
NAMES: Mapping[EntryKind, str] = {
    "user": "requests",
    "summary": "summaries",
    "finding": "findings",
    "you": "replies",
    "change": "changes",
    "tool": "tool calls",
    "read": "readings",
}
# Bytes of the first request, of any other entry, and of a reply or a finding.
TASK_LIMIT, USER_LIMIT, REPLY_LIMIT = 6_000, 2_000, 600
WRITTEN_LIMIT = 8_000
"""Bytes of a summary that a model wrote."""
NEWEST_REPLIES = 5  # these are chosen first; of the older ones those that say most of what no other reply says
_ENTRY = re.compile(rf"^- ({'|'.join(ENTRY_KINDS)}): ", re.MULTILINE)
_LEFT_OUT = re.compile(r"^- left out: (.*)$", re.MULTILINE)
_LOADED = re.compile(r"^- groups of tools loaded: (.*)$", re.MULTILINE)
_FINDING = re.compile(r"^[\s>*#-]*(finding|root cause|decision)s?\b[\s*]*:\s*\S", re.IGNORECASE)
_WORD = re.compile(r"\w{3,}")
_NOTE_SIZE = 120


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


def extend_summary(
    earlier: str, messages: Sequence[Message], limit: int, effects: ToolEffects = NO_EFFECTS, written: str = ""
) -> str:
    """Return a summary of `earlier` and of the `messages` after it, in at most `limit` bytes.

    It keeps the first request and the newest entries of each kind, none twice, and counts the entries left out.
    `written` is what a model wrote about these messages: one more entry.
    """
    entries = summary_entries(earlier, messages, effects)
    if written:
        entries.append(SummaryEntry("summary", written))
    # The note about what is left out is written last, when the counts are known.
    tools = loaded_groups(messages, loaded_before(earlier), effects.groups)
    loaded = [f"- groups of tools loaded: {', '.join(tools)}"] if tools else []
    room, left = limit - _NOTE_SIZE - sum(map(text_size, loaded)), 0.0
    chosen: dict[int, SummaryEntry] = {}
    for kind in ENTRY_KINDS:
        room_here = room * SHARES[kind] + left
        found = _choose_entries([(at, entry) for at, entry in enumerate(entries) if entry.kind == kind], room_here)
        chosen |= found
        left = room_here - sum(text_size(str(entry)) + 1 for entry in found.values())
    dropped = Counter(entry.kind for at, entry in enumerate(entries) if at not in chosen)
    if before := _LEFT_OUT.search(earlier):
        kinds = {name: kind for kind, name in NAMES.items()}
        for count, _, name in (part.partition(" ") for part in before[1].split(", ")):
            if name in kinds and count.isdigit():
                dropped[kinds[name]] += int(count)
    counts = ", ".join(f"{dropped[kind]} {NAMES[kind]}" for kind in ENTRY_KINDS if dropped[kind])
    note = [f"- left out: {counts}"] if counts else []
    return "\n".join([*note, *loaded, *(str(chosen[at]) for at in sorted(chosen))])


def loaded_before(summary: str) -> Sequence[str]:
    """Return the groups of tools that were loaded in what a summary replaces."""
    found = _LOADED.search(summary)
    return found[1].split(", ") if found else ()


def summary_entries(summary: str, messages: Sequence[Message], effects: ToolEffects = NO_EFFECTS) -> list[SummaryEntry]:
    """Return the entries of a summary and then those of the messages after it, in order."""
    _, *found = _ENTRY.split(summary)
    texts = (text.removesuffix("\n").replace("\n  ", "\n") for text in found[1::2])
    entries = [SummaryEntry(kind, text) for kind, text in zip(found[::2], texts, strict=True)]  # type: ignore[arg-type]
    return [*entries, *_entries_from_messages(messages, effects)]


def plain_text(message: Message) -> str:
    """Return the text of a message, with a placeholder for each image and attached file."""
    words: list[str] = []
    for part in message.parts:
        if isinstance(part, Image):
            words.append("[an image]")
        elif isinstance(part, Text):
            # The first text is the user's own, whatever it begins with.
            is_file = part.text.startswith(ATTACHMENT_PREFIX) and words
            words.append(f"[{part.text.split(chr(10), 1)[0]}]" if is_file else part.text)
    return "\n".join(words).strip()


def _entries_from_messages(messages: Sequence[Message], effects: ToolEffects) -> Iterator[SummaryEntry]:
    results = {part.call_id: part for message in messages for part in message.parts if isinstance(part, ToolResult)}
    for message in messages:
        words = plain_text(message)
        if isinstance(message, UserMessage):
            if words:
                yield SummaryEntry("user", words)
            continue
        lines = words.split("\n")
        findings = [line for line in lines if _FINDING.match(line)]
        if other := "\n".join(line for line in lines if line not in findings).strip():
            yield SummaryEntry("you", other).within(REPLY_LIMIT)
        yield from (SummaryEntry("finding", line.strip()).within(REPLY_LIMIT) for line in findings)
        for call in message.tool_calls:
            result = results.get(call.id)
            kind = call_kind(call, result, effects)
            yield SummaryEntry(kind, summarise_call(call, result, kind))


def _choose_entries(entries: Sequence[tuple[int, SummaryEntry]], room: float) -> dict[int, SummaryEntry]:
    # The first request comes first: it is the task. It gets at most half the room.
    chosen: dict[int, SummaryEntry] = {}
    if entries and entries[0][1].kind == "user":
        at, task = entries[0]
        chosen[at] = task.within(min(TASK_LIMIT, int(room / 2)))
        room -= text_size(str(chosen[at])) + 1
        entries = entries[1:]
    shown: set[str] = set()
    for rank, (at, entry) in enumerate(_best_first(entries)):
        most = WRITTEN_LIMIT if entry.kind == "summary" else USER_LIMIT
        short = entry.within(min(most, int(room) - 1) if rank == 0 else most)
        if str(short) in shown:
            continue
        room -= text_size(str(short)) + 1
        if room < 0:
            break
        shown.add(str(short))
        chosen[at] = short
    return chosen


def _best_first(entries: Sequence[tuple[int, SummaryEntry]]) -> Sequence[tuple[int, SummaryEntry]]:
    # The newest first; of older replies those first that say most that no other says.
    newest_first = entries[::-1]
    if not entries or entries[0][1].kind != "you":
        return newest_first
    words = {at: set(_WORD.findall(entry.text.casefold())) for at, entry in entries}
    said_by = Counter(word for each in words.values() for word in each)

    def own_words(entry: tuple[int, SummaryEntry]) -> int:
        return sum(said_by[word] == 1 for word in words[entry[0]])

    older = sorted(newest_first[NEWEST_REPLIES:], key=own_words, reverse=True)
    return [*newest_first[:NEWEST_REPLIES], *older]
