"""An agent's own list of what is to be done: small, kept as soon as it changes, shown in its context."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

import msgspec

from scaffold.core.todo import Priority, Status, Todo, TodoList
from scaffold.core.tool import Tool, ToolOutput
from scaffold.policy.paths import Refusal
from scaffold.tools.arguments import object_schema
from scaffold.tools.workspace import failed

MOST = 200
LONGEST = 500
"""Characters of a todo."""
LAST_CONTROL = "\x9f"
NOTHING = TodoList()
_MARKS: Mapping[Status, str] = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}
_STATUS = {"type": "string", "enum": list(get_args(Status))}
_PRIORITY = {"type": "string", "enum": list(get_args(Priority))}
_ENTRY = {
    "type": "object",
    "properties": {
        "id": {"description": "Its number in the list, for update and delete."},
        "content": {"type": "string", "description": "One line."},
        "status": _STATUS,
        "priority": _PRIORITY,
    },
}
"""Other members are let pass and ignored: models bring those of lists they know from elsewhere."""

Change = Literal["create", "update", "delete", "set"]
Entries = tuple[Todo, ...]


def unkept(todos: TodoList) -> None:
    """Keep nothing."""


class Todos:
    """The list of one agent."""

    def __init__(self, kept: TodoList = NOTHING, keep: Callable[[TodoList], None] = unkept) -> None:
        """Go on with what was kept; `keep` is told the whole list before a change counts, and may refuse by raising."""
        self._list = kept
        self._keep = keep
        self._told: list[Callable[[Entries], None]] = []

    @property
    def entries(self) -> Entries:
        """Return the list as it is now."""
        return self._list.entries

    def watch(self, told: Callable[[Entries], None]) -> None:
        """Have `told` called with the list after each change."""
        self._told.append(told)

    def change(self, action: Change, wishes: Sequence[Mapping[str, Any]]) -> Refusal | None:
        """Create, update or delete entries, or set the whole list; all of it, or nothing and why."""
        before = self._list
        after = TodoList((), before.last_id) if action == "set" else before
        for number, wish in enumerate(wishes, 1):
            changed = _changed(after, action, wish, before)
            if isinstance(changed, Refusal):
                return Refusal(f"Todo {number}: {changed.reason} Nothing is changed.")
            after = changed
        if len(after.entries) > MOST:
            return Refusal(f"That would be {len(after.entries)} todos, more than {MOST}; delete what is completed.")
        self._keep(after)
        self._list = after
        for told in self._told:
            told(after.entries)
        return None

    def render(self) -> str:
        """Return the list for people and models, a line each; empty if there is none."""
        return "\n".join(map(line, self.entries))


def line(todo: Todo) -> str:
    """Return a todo in one line: its mark, its number, what is to be done, and its priority unless it is medium."""
    note = f" ({todo.priority})" if todo.priority != "medium" else ""
    return f"{_MARKS[todo.status]} {todo.id}. {todo.content}{note}"


def todo_write(todos: Todos) -> Tool:
    """Return the tool that changes `todos`; it answers with the list as it is then.

    Without `action` entries that name a number and have no content are updates; anything else is the whole new list.
    """

    async def run(args: Mapping[str, Any]) -> ToolOutput:
        wishes = args["todos"]
        refusal = todos.change(args.get("action") or _meant(wishes), wishes)
        return failed(refusal.reason) if refusal else ToolOutput(todos.render() or "The list is empty.")

    return Tool(
        name="TodoWrite",
        description=(
            "Keep a list of what you have to do: create, update or delete entries, or set the whole list (the "
            "default). Have one entry in_progress, and mark it completed as soon as it is."
        ),
        schema=object_schema(
            {"todos": {"type": "array", "items": _ENTRY}},
            action={"type": "string", "enum": list(get_args(Change))},
        ),
        category="memory",
        run=run,
    )


def todo_read(todos: Todos) -> Tool:
    """Return the tool that answers with `todos`, all or filtered, as a JSON list."""

    async def run(args: Mapping[str, Any]) -> ToolOutput:
        wanted = [entry for entry in todos.entries if all(getattr(entry, name) == args[name] for name in args)]
        return ToolOutput(msgspec.json.encode(wanted).decode())

    return Tool(
        name="TodoRead",
        description="Read your list of what you have to do, all of it or by status or priority.",
        schema=object_schema({}, status=_STATUS, priority=_PRIORITY),
        category="memory",
        run=run,
        only_reads=True,
    )


def _meant(wishes: Sequence[Mapping[str, Any]]) -> Change:
    """Return which action it is when none is named."""
    return "update" if wishes and all("id" in wish and "content" not in wish for wish in wishes) else "set"


def _changed(todos: TodoList, action: Change, wish: Mapping[str, Any], before: TodoList) -> TodoList | Refusal:
    """Return the list after one wish; `before` is what it was before all of them."""
    given = {name: wish[name] for name in ("content", "status", "priority") if name in wish}
    if "content" in given:
        given["content"] = _one_line(given["content"])
        if not 0 < len(given["content"]) <= LONGEST:
            return Refusal(f"`content` is empty or longer than {LONGEST} characters.")
    found = next((entry for entry in before.entries if entry.id == _number(wish.get("id"))), None)
    if action == "create":
        return _with_new(todos, given)
    if action == "set":
        return _with_new(todos, given) if found is None or found.id in _ids(todos) else _with(todos, found, given)
    if found is None or found.id not in _ids(todos):
        known = ", ".join(map(str, _ids(todos))) or "none"
        return Refusal(f"`id` must be one of the list ({known}), not {wish.get('id')}.")
    if action == "delete":
        return _of(todos, tuple(entry for entry in todos.entries if entry.id != found.id))
    return _of(
        todos,
        tuple(msgspec.structs.replace(each, **given) if each.id == found.id else each for each in todos.entries),
    )


def _number(value: Any) -> int | None:
    """Return the number of an entry, which models write as text, too; None for anything else."""
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else None


def _one_line(text: str) -> str:
    """Return `text` in one line that every wire and screen can carry: half a surrogate pair becomes `?`.

    White space becomes a space, other control characters are left out.
    """
    plain = "".join(each for each in text if each.isspace() or each.isprintable() or each > LAST_CONTROL)
    return " ".join(plain.encode(errors="replace").decode().split())


def _ids(todos: TodoList) -> list[int]:
    return [entry.id for entry in todos.entries]


def _of(todos: TodoList, entries: Entries) -> TodoList:
    return msgspec.structs.replace(todos, entries=entries)


def _with_new(todos: TodoList, given: Mapping[str, Any]) -> TodoList | Refusal:
    if "content" not in given:
        return Refusal("a new one needs `content`.")
    new_id = todos.last_id + 1
    return TodoList((*todos.entries, Todo(id=new_id, **given)), new_id)


def _with(todos: TodoList, found: Todo, given: Mapping[str, Any]) -> TodoList:
    """Return the list with an entry that was in it before, as it is to be now."""
    return _of(todos, (*todos.entries, msgspec.structs.replace(found, **given)))
