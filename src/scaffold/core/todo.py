"""What an agent has to do: values that its tools change and a store keeps."""

from typing import Literal

from msgspec import Struct

Status = Literal["pending", "in_progress", "completed"]
Priority = Literal["high", "medium", "low"]


class Todo(Struct, frozen=True, kw_only=True):
    """One thing to do."""

    id: int
    content: str
    """One line."""
    status: Status = "pending"
    priority: Priority = "medium"


class TodoList(Struct, frozen=True):
    """All there is to do, in order."""

    entries: tuple[Todo, ...] = ()
    last_id: int = 0
    """The highest id there ever was: none is used again."""
