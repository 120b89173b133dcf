"""Work items: which are ready, what keeps others from it, and which links would make a circle."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from scaffold.core.work_item import WorkItem

Items = Mapping[str, WorkItem]


def ready_items(items: Iterable[WorkItem]) -> Sequence[WorkItem]:
    """Return the open tasks that nothing keeps from being started, the most urgent first, then the oldest."""
    known = {each.id: each for each in items}
    ready = [
        each
        for each in known.values()
        if each.kind == "task" and each.status == "open" and not any(hindrances(each, known))
    ]
    return sorted(ready, key=lambda each: (each.priority, each.created_at, each.id))


def hindrances(item: WorkItem, known: Items) -> Iterator[str]:
    """Yield what keeps an item from being started, or what it is a part of, each in a few words."""
    for part in (item, *_above(item, known)):
        if part is not item and part.status in {"blocked", "canceled"}:
            yield f"{part.id}, which it is a part of, is {part.status}"
        yield from (f"it waits for {each}" for each in part.blocked_by if each in known and not known[each].has_ended)


def open_parts(item: WorkItem, known: Items) -> Sequence[WorkItem]:
    """Return the items directly below that have not ended."""
    return [each for each in known.values() if each.parent == item.id and not each.has_ended]


def circle_in(known: Items) -> Sequence[str]:
    """Return the ids of items that wait for each other in a circle, the first one again at the end; empty if none do.

    An item waits for its parts, for the items that block it, and for those that block what it is a part of.
    """
    waits = {
        item.id: {blocker for part in (item, *_above(item, known)) for blocker in part.blocked_by}
        for item in known.values()
    }
    for item in known.values():
        if item.parent is not None:
            waits.setdefault(item.parent, set()).add(item.id)
    try:
        TopologicalSorter({name: sorted(others) for name, others in waits.items()}).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        return circle[::-1]
    return ()


def _above(item: WorkItem, known: Items) -> Iterator[WorkItem]:
    """Yield what an item is a part of, the nearest first."""
    seen = {item.id}
    while item.parent is not None and item.parent in known and item.parent not in seen:
        item = known[item.parent]
        seen.add(item.id)
        yield item
