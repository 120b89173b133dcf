"""The item that a user names, and one that was refused."""

from scaffold.core.errors import UsageError
from scaffold.core.work_item import WorkItem
from scaffold.plan.items import Items
from scaffold.plan.message_text import quoted

MAX_KNOWN = 5


def find_item(known: Items, name: str) -> WorkItem:
    """Return the item whose id starts with `name`; raises UsageError if none does, or several do."""
    found = [item for item in known.values() if name.strip() and item.id.startswith(name.strip())]
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(each.id for each in found[:MAX_KNOWN])
        raise UsageError(f"{quoted(name)} is the start of several items", f"Say which: {ids}.")
    raise UsageError(f"there is no item {quoted(name)}", "`scaffold item list --all` lists them.")


def stored_or_refused(item: WorkItem | str) -> WorkItem:
    """Return an item that was stored; raises UsageError with the reason if it was not."""
    if isinstance(item, str):
        raise UsageError(f"that is not possible: {item}", "Nothing was changed; `scaffold item list` shows all.")
    return item
