"""Work items: which are ready, what keeps others from it, and which links would make a circle."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from msgspec import structs

from scaffold.core.printable_text import join_limited, one_line
from scaffold.core.work_item import LAST_PRIORITY, ItemStatus, WorkItem

Items = Mapping[str, WorkItem]
MAX_TITLE_CHARS, MAX_REASON_CHARS, MAX_TEXT_CHARS = 200, 500, 8_000
MAX_LABELS = 10
MAX_NAMED = 5
_NAME = re.compile(r"\w[\w./-]{0,39}")


def ready_items(items: Iterable[WorkItem]) -> Sequence[WorkItem]:
    """Return the open tasks that wait for nothing, not even for parts; the most urgent first, then the oldest."""
    known = {each.id: each for each in items}
    # An item with open parts is worked on in these.
    divided = {each.parent for each in known.values() if not each.has_ended}
    ready = [
        each
        for each in known.values()
        if each.kind == "task" and each.status == "open" and each.id not in divided and not any(hindrances(each, known))
    ]
    return sorted(ready, key=lambda each: (each.priority, each.created_at, each.id))


def hindrances(item: WorkItem, known: Items) -> Iterator[str]:
    """Yield the obstacles that keep an item, or one around it, from being started, each in a few words."""
    for part in (item, *_ancestors(item, known)):
        if part is not item and part.status in {"blocked", "canceled"}:
            yield f"{part.id}, which it is a part of, is {part.status}"
        yield from (f"it waits for {each}" for each in part.blocked_by if each in known and not known[each].has_ended)


def open_parts(item: WorkItem, known: Items) -> Sequence[WorkItem]:
    """Return the items directly below that have not ended."""
    return [each for each in known.values() if each.parent == item.id and not each.has_ended]


def problem_of(item: WorkItem, known: Items) -> str:
    """Return why an item cannot be stored among the `known` ones; empty if nothing is wrong with it."""
    links = [each for each in (item.parent, *item.blocked_by) if each is not None]
    problems = (
        (not item.title, "it has no title"),
        (len(item.title) > MAX_TITLE_CHARS, f"its title has more than {MAX_TITLE_CHARS} characters"),
        (len(item.reason) > MAX_REASON_CHARS, f"the reason has more than {MAX_REASON_CHARS} characters"),
        (len(item.description) > MAX_TEXT_CHARS, f"its description has more than {MAX_TEXT_CHARS:,} characters"),
        (not 0 <= item.priority <= LAST_PRIORITY, f"its priority is not between 0 and {LAST_PRIORITY}"),
        (len(item.labels) > MAX_LABELS, f"it has more than {MAX_LABELS} labels"),
        (any(not _NAME.fullmatch(each) for each in item.labels), "a label is not a word of up to 40 characters"),
        (bool(item.project) and not _NAME.fullmatch(item.project), "its project is not a word of up to 40 characters"),
        (any(each not in known and each != item.id for each in links), "an item that it names does not exist"),
        # Checked last, as the search visits all items.
    )
    found = next((text for is_wrong, text in problems if is_wrong), "")
    if not found and (circle := circle_in({**known, item.id: item})):
        return f"it would wait in a circle: {' -> '.join(circle)}"
    return found


def moved(item: WorkItem, to: ItemStatus, known: Items, *, reason: str = "") -> WorkItem | str:
    """Return the item with another status, or why it cannot have that."""
    if to == "in_progress":
        problem = "it is in progress" if item.status == "in_progress" else next(hindrances(item, known), "")
    elif to == "done":
        left = [each.id for each in open_parts(item, known)]
        problem = f"parts of it are open: {join_limited(left, MAX_NAMED)}" if left else ""
    else:
        problem = "it needs a reason" if to == "blocked" and not reason.strip() else ""
    # Only `open` reopens an ended item, so that it does not happen by accident.
    if not problem and item.has_ended and to not in {"open", item.status}:
        problem = f"it is {item.status}"
    return problem or structs.replace(item, status=to, reason=one_line(reason) if to == "blocked" else "")


def circle_in(known: Items) -> Sequence[str]:
    """Return the ids of items that wait for each other in a circle, the first one again at the end; empty if none do.

    An item waits for its parts, for the items that block it, and for those that block what it is a part of.
    """
    # Waiting is inherited: who works on a part waits for what its epic waits for.
    waits = {
        item.id: {blocker for part in (item, *_ancestors(item, known)) for blocker in part.blocked_by}
        for item in known.values()
    }
    for item in known.values():
        if item.parent is not None:
            waits.setdefault(item.parent, set()).add(item.id)
    try:
        TopologicalSorter({name: sorted(others) for name, others in waits.items()}).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        # TopologicalSorter lists each node before the one that it waits for.
        return circle[::-1]
    return ()


def _ancestors(item: WorkItem, known: Items) -> Iterator[WorkItem]:
    """Yield the items that contain an item, the nearest first."""
    # `known` may hold a circle, as when an item is checked before it is stored.
    seen = {item.id}
    while item.parent is not None and item.parent in known and item.parent not in seen:
        item = known[item.parent]
        seen.add(item.id)
        yield item
