"""What waits for a human, as it is drawn: in a line, and in full, to the letter of what a decision holds for."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from scaffold.cli.safe import printable
from scaffold.cli.screen import WIDTH, clip, heading, span, wrapped
from scaffold.core.ids import Key
from scaffold.core.legible import few
from scaffold.core.model import Action, InboxItem
from scaffold.core.states import waits_for

MOST_CHARACTERS = 20_000
"""Characters of one part of a call that are shown."""
BAR = "    │ "

Askers = Mapping[str, Sequence[Key]]
"""Which actions an item is about, by its id: who asked first, then who else waits for it."""


def askers(items: Sequence[InboxItem], actions: Sequence[Action]) -> Askers:
    """Return who needs each item, of all `actions` there are."""
    keys = {action.id: action.key for action in actions}
    found: dict[str, list[Key]] = {item.id: [keys[item.action_id]] if item.action_id in keys else [] for item in items}
    for action in actions:
        item_id = waits_for(action.state)
        if item_id in found and action.key not in found[item_id]:
            found[item_id].append(action.key)
    return found


def commands(item: InboxItem) -> tuple[str, ...]:
    """Return the commands that decide about an item."""
    if item.kind == "approval":
        return f"scaffold approve {item.id}", f"scaffold reject {item.id}"
    return (f"scaffold answer {item.id} TEXT",)


def brief_lines(items: Sequence[InboxItem], who: Askers, *, most: int) -> Iterator[str]:
    """Yield a line for each item, and one for the commands that decide about it."""
    for item in items[:most]:
        yield f"  {clip(f'{item.id}  {_named(who[item.id])}: {item.text}', WIDTH - 2)}"
        yield f"      {' | '.join(commands(item))}"
    if len(items) > most:
        yield f"  and {len(items) - most} more"


def full(item: InboxItem, who: Sequence[Key], now: datetime) -> str:
    """Return all that a human needs to decide: who asks, exactly what for, why, how long there is, and how to answer.

    Text of models is shown with its control characters as escapes.
    """
    age = span(now - item.created_at)
    title = clip(f"{item.kind} {item.id}: {_named(who)}, in run {item.run_id}, {age} ago", WIDTH)
    lines = [heading(title), *_subject(item), *_reason(item), *_fate(item, now)]
    if item.state == "open":
        lines += [f"  {command}" for command in commands(item)]
    return "\n".join(lines)


def _named(keys: Sequence[Key]) -> str:
    return few(keys, 1) or "the run"


def _subject(item: InboxItem) -> Iterator[str]:
    """Yield what is asked; a decision holds for all arguments of a call, or all files of a change: all are shown."""
    if item.kind != "approval":
        yield from _quoted(item.text)
        yield from (f"  - {printable(str(option))}" for option in item.detail.get("options", ()))
        return
    yield f"  {printable(item.text)}"
    if protected := item.detail.get("protected"):
        yield "  protected:"
        yield from _quoted("\n".join(map(str, protected)))
        return
    for name, value in _arguments(item.detail.get("args", "")).items():
        yield f"  {printable(name)}:"
        yield from _quoted(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _arguments(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {"args": text}
    return found if isinstance(found, dict) else {"args": text}


def _quoted(text: str) -> Iterator[str]:
    shown = text[:MOST_CHARACTERS]
    yield from (f"{BAR}{printable(line)}" for line in shown.split("\n"))
    if len(text) > len(shown):
        yield f"    {len(text) - len(shown):,} more characters: `scaffold inbox --json` shows them"


def _reason(item: InboxItem) -> Iterator[str]:
    if reason := item.detail.get("reason"):
        yield from (f"  {line}" for line in wrapped(f"It asks because {reason}.", WIDTH - 2))


def _fate(item: InboxItem, now: datetime) -> Iterator[str]:
    if item.state == "open":
        if item.expires_at is not None:
            yield f"  expires in {span(item.expires_at - now)}"
        return
    said = f": {item.answer}" if item.answer else ""
    held = ""
    if item.state in {"approved", "rejected"} and item.holds_until is not None:
        left = f"for {span(item.holds_until - now)} more" if item.holds_until > now else "no more"
        held = f", holds for the {item.scope} {left}"
    yield f"  {clip(f'{item.state}{said}', WIDTH - 2 - len(held))}{held}"
