"""An agent's todo list: values that its tools change and a store keeps."""

from typing import Literal

from msgspec import Struct

TodoStatus = Literal["pending", "in_progress", "completed"]
TodoPriority = Literal["high", "medium", "low"]


class Todo(Struct, frozen=True, kw_only=True):
    """One todo item."""

    id: int
    content: str
    """A single line."""
    status: TodoStatus = "pending"
    priority: TodoPriority = "medium"


class TodoList(Struct, frozen=True):
    """All todo items, in order."""

    entries: tuple[Todo, ...] = ()
    last_id: int = 0
    """The highest id ever used; ids are not reused."""
