"""Inbox items as text: on one line each, or in full with everything that a decision is about."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from rich.cells import chop_cells

from scaffold.cli.render.terminal.style import heading
from scaffold.cli.render.terminal.text_layout import UNLIMITED, Layout
from scaffold.core.model import InboxItem
from scaffold.core.printable_text import count_of, one_line, printable
from scaffold.plan.failures.answers import CHOICES, CONTEXT
from scaffold.views.lookalikes import mark_lookalikes
from scaffold.views.text_format import BAR, CONTINUED_BAR, TAB_CELLS, brief, format_duration
from scaffold.views.waiting import WaitingEntry

MAX_CHARACTERS = 20_000
"""Characters shown of one argument."""


def brief_lines(entries: Sequence[WaitingEntry], now: datetime, layout: Layout, *, most: int) -> Iterator[str]:
    """Yield the beginning of each entry, and a line for the commands that decide about it."""
    for entry in entries[:most]:
        text = brief(f"{entry.who}, {entry.age(now)}: {entry.text}", UNLIMITED)
        yield from layout.prose(f"  {entry.id}  ", text)
        # Commands are copied: none is broken.
        line = f"      {' | '.join(entry.commands)}"
        yield from [line] if len(line) <= layout.columns else (f"      {each}" for each in entry.commands)
    if len(entries) > most:
        yield f"  and {len(entries) - most} more"


def entry_text(entry: WaitingEntry, now: datetime, layout: Layout, change: Iterable[str] = ()) -> str:
    """Return everything that a human needs to decide: who asks, for what, why, until when, how to answer.

    `change` are lines about the change that is to be approved. Control characters of a model are shown as escapes.
    """
    item = entry.item
    sort = item.detail.get("kind") if item is not None else None
    kind = f"{entry.kind} ({printable(str(sort))})" if entry.kind == "question" and sort else entry.kind
    run = f", in run {entry.run}" if item is not None else ""
    lines = [*map(heading, layout.wrap("", f"{kind} {entry.id}: {entry.who}{run}, {entry.age(now)}", hang=2))]
    if item is None:
        lines += [*_quoted_lines(entry.text, layout), *layout.prose("  ", f"holds up {entry.holds_up}")]
    else:
        lines += [*_subject_lines(item, layout), *change]
        # In one line: no line without a bar may begin with words of an agent.
        if reason := item.detail.get("reason"):
            lines += layout.prose("  ", f"It asks because {one_line(reason)}.")
        lines += _decision_lines(item, now, layout)
    if item is None or item.state == "open":
        lines += [f"  {command}" for command in entry.commands]
    return "\n".join(lines)


def _subject_lines(item: InboxItem, layout: Layout) -> Iterator[str]:
    # A decision is about all arguments of a call, and all files or tests of a change: none is left out.
    if item.kind != "approval":
        yield from _quoted_lines(item.text, layout)
        if context := item.detail.get(CONTEXT):
            yield from _quoted_lines(str(context), layout)
        for option in item.detail.get("options", ()):
            yield from layout.prose("  - ", one_line(str(option)))
        for word, meaning in item.detail.get(CHOICES, {}).items():
            yield from layout.prose(f"  {word}: ", meaning)
        return
    # One line: no line without a bar may begin with words of an agent.
    yield from layout.wrap("  ", mark_lookalikes(one_line(item.text)))
    if "landing" in item.detail:
        return
    for name in ("protected", "lost"):
        if entries := item.detail.get(name):
            yield f"  {name}:"
            yield from _quoted_lines("\n".join(map(str, entries)), layout)
            return
    if files := item.detail.get("files"):
        yield "  files:"
        yield from _quoted_lines("\n".join(map(str, files)), layout)
        yield "  what they judge:"
        yield from _quoted_lines("\n".join(map(str, item.detail.get("judging", ()))), layout)
        return
    for name, value in _call_arguments(item.detail.get("args", "")).items():
        yield f"  {printable(name)}:"
        shown = value if isinstance(value, str) else msgspec.json.format(msgspec.json.encode(value), indent=0).decode()
        yield from _quoted_lines(shown, layout)


def _call_arguments(text: str) -> Mapping[str, Any]:
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return {"args": text}
    return found if isinstance(found, dict) else {"args": text}


def _quoted_lines(text: str, layout: Layout) -> Iterator[str]:
    # A bar before each line: none of the agent's words may look like ours.
    shown = text[:MAX_CHARACTERS]
    for line in shown.split("\n"):
        # Broken at a column instead of at a space: a decision is about every character.
        rows = chop_cells(printable(mark_lookalikes(line)).expandtabs(TAB_CELLS), layout.columns - len(BAR)) or [""]
        yield from (f"{BAR if number == 0 else CONTINUED_BAR}{row}".rstrip() for number, row in enumerate(rows))
    if len(text) > len(shown):
        yield f"    {count_of(len(text) - len(shown), 'more character')}: `scaffold inbox --json` shows them"


def _decision_lines(item: InboxItem, now: datetime, layout: Layout) -> Iterator[str]:
    if item.state == "open":
        if item.expires_at is not None:
            yield f"  expires in {format_duration(item.expires_at - now)}"
        return
    answer = f": {item.answer}" if item.answer else ""
    held = ""
    if item.state in {"approved", "rejected"} and item.valid_until is not None:
        left = f"for {format_duration(item.valid_until - now)} more" if item.valid_until > now else "no more"
        held = f", holds for {'one call' if item.scope == 'call' else f'the {item.scope}'} {left}"
    yield from layout.prose("  ", f"{item.state}{answer}{held}")
