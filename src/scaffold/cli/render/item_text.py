"""Work items as text and as JSON."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from scaffold.cli.render.terminal.style import heading
from scaffold.cli.render.terminal.text_layout import Layout
from scaffold.core.errors import UsageError
from scaffold.core.work_item import ItemLog, WorkItem
from scaffold.plan.items import Items, hindrances, ready_items
from scaffold.plan.message_text import quoted
from scaffold.store.database import Store

MAX_KNOWN = 5
NO_ITEMS = (
    "There are no items yet. `scaffold item add TITLE` adds one; agents file what they find outside of their task."
)


def find_item(known: Items, name: str) -> WorkItem:
    """Return the item whose id starts with `name`; UsageError if none does, or several do."""
    found = [item for item in known.values() if name.strip() and item.id.startswith(name.strip())]
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(each.id for each in found[:MAX_KNOWN])
        raise UsageError(f"{quoted(name)} is the start of several items", f"Say which: {ids}.")
    raise UsageError(f"there is no item {quoted(name)}", "`scaffold item list --all` lists them.")


def most_urgent_first(items: Iterable[WorkItem]) -> Sequence[WorkItem]:
    """Return items in the order in which they are listed."""
    return sorted(items, key=lambda each: (each.priority, each.created_at, each.id))


def items_text(words: Sequence[str], store: Store | None, layout: Layout) -> str:
    """Return what `/tasks WORDS` says of the items of a repository: `list`, `ready` or `show ID`."""
    known = store.work_items.all() if store else {}
    match words:
        case ["show", name]:
            found = find_item(known, name)
            return "\n".join(item_lines(found, store.work_items.logs(found.id) if store else (), known, layout))
        case ["ready"]:
            shown = ready_items(known.values())
        case _:
            shown = most_urgent_first(each for each in known.values() if not each.has_ended)
    if not known:
        return NO_ITEMS
    none = "No item is ready." if words == ["ready"] else "No item is open."
    return "\n".join(line for each in shown for line in item_line(each, known, layout)) or none


def item_json(item: WorkItem, known: Items) -> dict[str, Any]:
    """Return everything known of an item, without its log."""
    return {
        "id": item.id,
        "title": item.title,
        "description": item.description,
        "type": item.kind,
        "status": item.status,
        "reason": item.reason or None,
        "priority": item.priority,
        "parent": item.parent,
        "project": item.project or None,
        "labels": item.labels,
        "blocked_by": item.blocked_by,
        "blocks": [each.id for each in known.values() if item.id in each.blocked_by],
        "ready": item in ready_items(known.values()),
        "run": item.run or None,
        "action": item.action or None,
        "filed_by": "agent" if item.by_agent else "human",
        "created_at": item.created_at,
        "updated_at": item.updated_at,
    }


def item_line(item: WorkItem, known: Items, layout: Layout) -> Iterator[str]:
    """Yield an item on one line: id, priority, status, title, and what blocks it."""
    facts = [f"p{item.priority}", item.status, *(["epic"] if item.kind == "epic" else [])]
    facts += [f"#{each}" for each in item.labels]
    waits = item.reason or (next(hindrances(item, known), "") if item.status == "open" else "")
    yield from layout.prose(f"{heading(item.id)}  {' '.join(facts)}  ", f"{item.title}{f' ({waits})' if waits else ''}")


def item_lines(item: WorkItem, log: Sequence[ItemLog], known: Items, layout: Layout) -> Iterator[str]:
    """Yield all of an item, with its log."""
    yield from item_line(item, known, layout)
    links = {
        "project": item.project,
        "part of": item.parent or "",
        "waits for": ", ".join(item.blocked_by),
        "blocks": ", ".join(each.id for each in known.values() if item.id in each.blocked_by),
        "parts": ", ".join(each.id for each in known.values() if each.parent == item.id),
        "action": f"{item.action} of run {item.run}" if item.action else "",
        "filed by": "an agent" if item.by_agent else "",
    }
    for name, text in links.items():
        if text:
            yield from layout.prose(f"  {name}: ", text)
    if item.description:
        yield from layout.prose("  ", item.description)
    for entry in log:
        yield from layout.prose(f"  {entry.at:%Y-%m-%d %H:%M}  ", entry.text)
