"""An agent's todo list: small, saved on every change, shown in its context."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

import msgspec

from scaffold.core.conversation import Todo, TodoList, TodoPriority, TodoStatus
from scaffold.core.tool import Tool, ToolGroup, ToolOutput
from scaffold.policy.path.containment import Refusal
from scaffold.tools.arguments import object_schema
from scaffold.tools.workspace import failed_answer

MAX_TODOS = 200
MAX_CHARS = 500
"""Characters of a todo."""
LAST_CONTROL = "\x9f"
EMPTY_LIST = TodoList()
_MARKS: Mapping[TodoStatus, str] = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}
_STATUS = {"type": "string", "enum": list(get_args(TodoStatus))}
_PRIORITY = {"type": "string", "enum": list(get_args(TodoPriority))}
_ENTRY = {
    "type": "object",
    "properties": {
        "id": {"description": "The entry's number; required for update and delete."},
        "content": {"type": "string", "description": "One line."},
        "status": _STATUS,
        "priority": _PRIORITY,
    },
}
"""Other members are accepted and ignored: models add fields of todo tools they know from elsewhere."""

TodoAction = Literal["create", "update", "delete", "set"]
Entries = tuple[Todo, ...]


def discard_todos(todos: TodoList) -> None:
    """Save nothing."""


class Todos:
    """The list of one agent."""

    def __init__(self, kept: TodoList = EMPTY_LIST, keep: Callable[[TodoList], None] = discard_todos) -> None:
        """Start from the saved list. `keep` saves the whole list before each change takes effect; it may raise."""
        self._list = kept
        self._keep = keep
        self._listeners: list[Callable[[Entries], None]] = []

    @property
    def entries(self) -> Entries:
        """Return the current entries."""
        return self._list.entries

    @property
    def saved(self) -> TodoList:
        """Return the list as it is saved."""
        return self._list

    def watch(self, listener: Callable[[Entries], None]) -> None:
        """Call `listener` with the entries after each change."""
        self._listeners.append(listener)

    def change(self, action: TodoAction, changes: Sequence[Mapping[str, Any]]) -> Refusal | None:
        """Create, update or delete entries, or set the whole list; return why nothing was changed, None on success."""
        before = self._list
        after = TodoList((), before.last_id) if action == "set" else before
        for number, change in enumerate(changes, 1):
            changed = _change_list(after, action, change, before)
            if isinstance(changed, Refusal):
                return Refusal(f"Todo {number}: {changed.reason} Nothing was changed.")
            after = changed
        if len(after.entries) > MAX_TODOS:
            return Refusal(f"That would be {len(after.entries)} todos, more than {MAX_TODOS}; delete completed ones.")
        # First: a change that cannot be stored must not take effect.
        self._keep(after)
        self._list = after
        for listener in self._listeners:
            listener(after.entries)
        return None

    def render(self) -> str:
        """Return the list as text, one line an entry; empty if the list is empty."""
        return "\n".join(map(format_todo, self.entries))


def format_todo(todo: Todo) -> str:
    """Return a todo in one line: status mark, number, content, and priority unless it is medium."""
    note = f" ({todo.priority})" if todo.priority != "medium" else ""
    return f"{_MARKS[todo.status]} {todo.id}. {todo.content}{note}"


def todo_write(todos: Todos) -> Tool:
    """Return the tool that changes `todos` and answers with the new list.

    Without `action`, entries that all have an id and no content are updates; anything else replaces the whole list.
    """

    async def run(args: Mapping[str, Any]) -> ToolOutput:
        changes = args["todos"]
        # Models leave the action out and mean one of two.
        are_updates = changes and all("id" in each and "content" not in each for each in changes)
        refusal = todos.change(args.get("action") or ("update" if are_updates else "set"), changes)
        return failed_answer(refusal.reason) if refusal else ToolOutput(todos.render() or "The list is empty.")

    return Tool(
        name="TodoWrite",
        description=(
            "Maintain your todo list: create, update or delete entries, or set the whole list (the default). "
            "Keep one entry in_progress and mark it completed as soon as it is done."
        ),
        schema=object_schema(
            {"todos": {"type": "array", "items": _ENTRY}}, action={"type": "string", "enum": list(get_args(TodoAction))}
        ),
        category="memory",
        run=run,
    )


def todo_read(todos: Todos) -> Tool:
    """Return the tool that lists `todos`, all or filtered, as JSON."""

    async def run(args: Mapping[str, Any]) -> ToolOutput:
        selected = [entry for entry in todos.entries if all(getattr(entry, name) == args[name] for name in args)]
        return ToolOutput(msgspec.json.encode(selected).decode())

    return Tool(
        name="TodoRead",
        description="Read your todo list, optionally only entries of one status or priority.",
        schema=object_schema({}, status=_STATUS, priority=_PRIORITY),
        category="memory",
        run=run,
        read_only=True,
        group=ToolGroup("memory"),
    )


def _change_list(
    todos: TodoList, action: TodoAction, change: Mapping[str, Any], before: TodoList
) -> TodoList | Refusal:
    given = {name: change[name] for name in ("content", "status", "priority") if name in change}
    if "content" in given:
        # A lone surrogate could not be stored, and a control character could change the screen.
        plain = "".join(
            each for each in given["content"] if each.isspace() or each.isprintable() or each > LAST_CONTROL
        )
        given["content"] = " ".join(plain.encode(errors="replace").decode().split())
        if not 0 < len(given["content"]) <= MAX_CHARS:
            return Refusal(f"`content` is empty or longer than {MAX_CHARS} characters.")
    value = change.get("id")
    # Some models send the number as text.
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else None
    found = next((entry for entry in before.entries if entry.id == number), None)
    if action == "create":
        return _create_entry(todos, given)
    if action == "set":
        return (
            _create_entry(todos, given)
            if found is None or found.id in _entry_ids(todos)
            else _replace_entries(todos, (*todos.entries, msgspec.structs.replace(found, **given)))
        )
    if found is None or found.id not in _entry_ids(todos):
        known = ", ".join(map(str, _entry_ids(todos))) or "none"
        return Refusal(f"`id` must be in the list ({known}), not {change.get('id')}.")
    if action == "delete":
        return _replace_entries(todos, tuple(entry for entry in todos.entries if entry.id != found.id))
    return _replace_entries(
        todos, tuple(msgspec.structs.replace(each, **given) if each.id == found.id else each for each in todos.entries)
    )


def _entry_ids(todos: TodoList) -> list[int]:
    return [entry.id for entry in todos.entries]


def _replace_entries(todos: TodoList, entries: Entries) -> TodoList:
    return msgspec.structs.replace(todos, entries=entries)


def _create_entry(todos: TodoList, given: Mapping[str, Any]) -> TodoList | Refusal:
    if "content" not in given:
        return Refusal("A new entry needs `content`.")
    new_id = todos.last_id + 1
    return TodoList((*todos.entries, Todo(id=new_id, **given)), new_id)
