"""The todo list as the text at the end of each request, so that it is never out of date and never breaks a cache."""

from msgspec import Struct

from scaffold.core.todo import Todo
from scaffold.tools.todos import Todos, format_todo

TODO_LIST_CHARS = 2_000
"""Approximate limit of the todo list in each request; TodoRead returns all of it."""


class TodoContext(Struct, frozen=True):
    """A context that never changes, with a todo list at the end of each request. Implements `ports.PromptContext`."""

    words: str
    todos: Todos

    def text(self) -> str:
        """Return the words."""
        return self.words

    def reminder(self) -> str:
        """Return the todo list; empty while nothing on it is open."""
        return todo_reminder(self.todos.entries)

    def renew(self) -> None:
        """Do nothing."""


def todo_reminder(todos: tuple[Todo, ...]) -> str:
    """Return the todo list as text, empty if nothing on it is open; a long list is cut, completed entries first."""
    if all(todo.status == "completed" for todo in todos):
        return ""
    lines = [format_todo(todo) for todo in todos]
    if _too_long(lines):
        lines = [format_todo(todo) for todo in todos if todo.status != "completed"]
    while _too_long(lines):
        lines = lines[: len(lines) // 2]
    left_out = len(todos) - len(lines)
    more = [f"... {left_out} more; TodoRead returns all"] if left_out else []
    return "\n".join(["[Your todo list as it is now:", *lines, *more]) + "]"


def _too_long(lines: list[str]) -> bool:
    return sum(map(len, lines)) > TODO_LIST_CHARS
