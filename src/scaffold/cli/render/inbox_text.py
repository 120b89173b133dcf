"""Inbox items as text: on one line each, or in full with everything that a decision is about."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.cells import chop_cells

from scaffold.cli.render.terminal.style import heading
from scaffold.cli.render.terminal.text_layout import UNLIMITED, Layout
from scaffold.core.ids import ActionKey
from scaffold.core.model import InboxItem
from scaffold.core.printable_text import count_of, join_limited, one_line, printable
from scaffold.plan.failures.answers import CHOICES, CONTEXT
from scaffold.views.lookalikes import mark_lookalikes
from scaffold.views.run_view import RequestersByItem, decision_commands
from scaffold.views.text_format import TAB_CELLS, ago, brief, format_duration

MAX_CHARACTERS = 20_000
"""Characters shown of one argument."""
BAR = "    │ "
CONTINUED_BAR = "    ┆ "


def brief_lines(items: Sequence[InboxItem], who: RequestersByItem, layout: Layout, *, most: int) -> Iterator[str]:
    """Yield the beginning of each item, and a line for the commands that decide about it."""
    for item in items[:most]:
        yield from layout.prose(f"  {item.id}  ", brief(f"{_requester_names(who[item.id])}: {item.text}", UNLIMITED))
        # Commands are copied: none is broken.
        line = f"      {' | '.join(decision_commands(item))}"
        yield from [line] if len(line) <= layout.columns else (f"      {each}" for each in decision_commands(item))
    if len(items) > most:
        yield f"  and {len(items) - most} more"


def item_text(
    item: InboxItem, who: Sequence[ActionKey], now: datetime, layout: Layout, change: Iterable[str] = ()
) -> str:
    """Return everything that a human needs to decide: who asks, for what, why, until when, how to answer.

    `change` are lines about the change that is to be approved. Control characters of a model are shown as escapes.
    """
    sort = item.detail.get("kind")
    kind = f"{item.kind} ({printable(str(sort))})" if item.kind == "question" and sort else item.kind
    title = f"{kind} {item.id}: {_requester_names(who)}, in run {item.run_id}, {ago(now - item.created_at)}"
    subject = [*_subject_lines(item, layout), *change]
    lines = [*map(heading, layout.wrap("", title, hang=2)), *subject]
    # In one line: no line without a bar may begin with words of an agent.
    if reason := item.detail.get("reason"):
        lines += layout.prose("  ", f"It asks because {one_line(reason)}.")
    lines += _decision_lines(item, now, layout)
    if item.state == "open":
        lines += [f"  {command}" for command in decision_commands(item)]
    return "\n".join(lines)


def _requester_names(keys: Sequence[ActionKey]) -> str:
    return join_limited(keys, 1) or "the run"


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
        yield from _quoted_lines(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), layout)


def _call_arguments(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
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
