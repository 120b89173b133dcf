"""Work items in the store: a change is checked against all others, and logged, in one transaction."""

from collections.abc import Callable, Sequence

from msgspec import structs

from scaffold.core.model import Attempt
from scaffold.core.printable_text import one_line
from scaffold.core.work_item import WorkItem
from scaffold.plan.items import Items, problem_of
from scaffold.store.database import Store

MAX_LOG_CHARS = 2_000
ItemChange = Callable[[WorkItem, Items], WorkItem | str]
"""Takes an item and all of them; returns the item as it should be, or why that cannot be."""


def add_item(
    store: Store, item: WorkItem, *, blocks: Sequence[str] = (), attempt: Attempt | None = None
) -> WorkItem | str:
    """Store a new item, which `blocks` others; return it, or why it cannot be stored.

    An agent's `attempt` must still be running (StaleFence otherwise). If an item with the same title has not ended, an
    agent gets that one, and its log says who came across it, too.
    """
    with store.transaction():
        known = store.work_items.all()
        if attempt is not None:
            store.attempts.check(attempt.id, fence=attempt.fence)
            title = item.title.casefold()
            same = next(
                (each for each in known.values() if each.title.casefold() == title and not each.has_ended), None
            )
            if same is not None:
                store.work_items.log(same.id, f"also found in {item.action}")
                return same
        others = [structs.replace(known[each], blocked_by=(*known[each].blocked_by, item.id)) for each in blocks]
        known = {**known, item.id: item}
        for each in (item, *others):
            if problem := problem_of(each, known):
                return problem
            known = {**known, each.id: each}
        store.work_items.put(item, attempt=attempt.id if attempt else "")
        for each in others:
            store.work_items.put(each)
        by = f"filed in {item.action}" if attempt is not None else "added"
        store.work_items.log(item.id, by)
    return item


def change_item(store: Store, item_id: str, change: ItemChange, log: str = "") -> WorkItem | str:
    """Change an item, and return it, or why that cannot be; `log` is added to its log, with its new status."""
    with store.transaction():
        known = store.work_items.all()
        before = known[item_id]
        after = change(before, known)
        if isinstance(after, str):
            return after
        if problem := problem_of(after, known):
            return problem
        store.work_items.put(after)
        moved = "" if after.status == before.status else f"{after.status}: {after.reason}".rstrip(": ")
        for text in filter(None, (moved, one_line(log)[:MAX_LOG_CHARS])):
            store.work_items.log(item_id, text)
    return after
