"""Work items: tasks and epics that people and agents write down. They never change a plan by themselves."""

from datetime import datetime
from typing import Literal

from msgspec import Struct

ItemKind = Literal["task", "epic"]
ItemStatus = Literal["open", "in_progress", "blocked", "done", "canceled"]
ENDED: frozenset[ItemStatus] = frozenset({"done", "canceled"})
DEFAULT_PRIORITY = 2
LAST_PRIORITY = 9


class WorkItem(Struct, frozen=True, kw_only=True):
    """Something to do, or to look at, outside of any plan."""

    id: str
    title: str
    description: str = ""
    kind: ItemKind = "task"
    status: ItemStatus = "open"
    reason: str = ""
    """Why it is blocked; empty otherwise."""
    priority: int = DEFAULT_PRIORITY
    """From 0, the most urgent, to 9."""
    parent: str | None = None
    """The epic, or task, that it is a part of."""
    project: str = ""
    labels: tuple[str, ...] = ()
    blocked_by: tuple[str, ...] = ()
    """The items that have to end before it is ready."""
    run: str = ""
    """The run that it is linked to; empty for none."""
    action: str = ""
    """The key of the action in that run."""
    by_agent: bool = False
    """Whether an agent filed it."""
    created_at: datetime
    updated_at: datetime

    @property
    def has_ended(self) -> bool:
        """Whether nothing is left to do."""
        return self.status in ENDED


class ItemLog(Struct, frozen=True):
    """An entry of an item's log."""

    at: datetime
    text: str
