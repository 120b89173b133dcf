"""What waits for a human: who asked, and which commands decide it."""

from collections.abc import Mapping, Sequence

from scaffold.core.ids import ActionKey
from scaffold.core.model import Action, InboxItem
from scaffold.core.states import awaited_inbox_id

RequestersByItem = Mapping[str, Sequence[ActionKey]]
"""Which actions an item is about, by its id: who asked first, then who else waits for it."""


def requesters_by_item(items: Sequence[InboxItem], actions: Sequence[Action]) -> RequestersByItem:
    """Return who needs each item, of all `actions` there are."""
    keys = {action.id: action.key for action in actions}
    found: dict[str, list[ActionKey]] = {
        item.id: [keys[item.action_id]] if item.action_id in keys else [] for item in items
    }
    for action in actions:
        item_id = awaited_inbox_id(action.state)
        if item_id in found and action.key not in found[item_id]:
            found[item_id].append(action.key)
    return found


def decision_commands(item: InboxItem) -> tuple[str, ...]:
    """Return the commands that decide about an item."""
    if item.kind == "approval":
        return f"scaffold approve {item.id}", f"scaffold reject {item.id}"
    return (f"scaffold answer {item.id} TEXT",)
