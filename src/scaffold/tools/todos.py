"""An agent's own list of what is to be done: in memory, small, shown in its context."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import msgspec
from msgspec import Struct

from scaffold.core.tool import Tool, ToolOutput
from scaffold.policy.paths import Refusal
from scaffold.tools.arguments import object_schema
from scaffold.tools.workspace import failed

Status = Literal["pending", "in_progress", "completed"]
Priority = Literal["high", "medium", "low"]
MOST = 200
LONGEST = 500
"""Characters of a todo."""
_MARKS: Mapping[Status, str] = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}
_STATUS = {"type": "string", "enum": list(get_args(Status))}
_PRIORITY = {"type": "string", "enum": list(get_args(Priority))}
_ENTRY = object_schema(
    {},
    id={"type": "integer", "minimum": 1, "description": "Which one, for update and delete."},
    content={"type": "string", "description": "What is to be done, one line."},
    status=_STATUS,
    priority=_PRIORITY,
)


class Entry(Struct, frozen=True, kw_only=True):
    """One thing to do; ids are never used again."""

    id: int
    content: str
    status: Status = "pending"
    priority: Priority = "medium"


class Todos:
    """The list of one agent."""

    def __init__(self) -> None:
        self.entries: tuple[Entry, ...] = ()
        self._last_id = 0

    def change(self, action: str, wishes: Sequence[Mapping[str, Any]]) -> Refusal | None:
        """Create, update or delete entries, or set the whole list; all of it, or nothing and why."""
        entries, last_id = ((), self._last_id) if action == "set" else (self.entries, self._last_id)
        for number, wish in enumerate(wishes, 1):
            changed = _changed(entries, action, wish, last_id + 1)
            if isinstance(changed, Refusal):
                return Refusal(f"Todo {number}: {changed.reason} Nothing is changed.")
            last_id += len(changed) > len(entries)
            entries = changed
        if len(entries) > MOST:
            return Refusal(f"That would be {len(entries)} todos, more than {MOST}; delete what is completed.")
        self.entries, self._last_id = entries, last_id
        return None

    def render(self) -> str:
        """Return the list for a context, a line each; empty if there is none."""
        return "\n".join(
            f"{_MARKS[entry.status]} {entry.id}. {entry.content}"
            + (f" ({entry.priority})" if entry.priority != "medium" else "")
            for entry in self.entries
        )


def todo_write(todos: Todos) -> Tool:
    """Return the tool that changes `todos`; it answers with the list as it is then."""

    async def run(args: Mapping[str, Any]) -> ToolOutput:
        refusal = todos.change(args["action"], args["todos"])
        return failed(refusal.reason) if refusal else ToolOutput(todos.render() or "The list is empty.")

    return Tool(
        name="TodoWrite",
        description=(
            "Keep a list of what you have to do: create, update or delete entries, or set the whole list. "
            "Have one entry in_progress, and mark it completed as soon as it is."
        ),
        schema=object_schema(
            {
                "action": {"type": "string", "enum": ["create", "update", "delete", "set"]},
                "todos": {"type": "array", "items": _ENTRY},
            }
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
    )


def _changed(
    entries: tuple[Entry, ...], action: str, wish: Mapping[str, Any], new_id: int
) -> tuple[Entry, ...] | Refusal:
    """Return the entries after one wish; one that is created gets `new_id`."""
    given = {name: value for name, value in wish.items() if name != "id"}
    if "content" in given:
        given["content"] = _one_line(given["content"])
        if not 0 < len(given["content"]) <= LONGEST:
            return Refusal(f"`content` is empty or longer than {LONGEST} characters.")
    if action in {"create", "set"}:
        return _with_new(entries, given, new_id)
    found = next((entry for entry in entries if entry.id == wish.get("id")), None)
    if found is None:
        known = ", ".join(str(entry.id) for entry in entries) or "none"
        return Refusal(f"`id` must be one of the list ({known}), not {wish.get('id')}.")
    if action == "delete":
        return tuple(entry for entry in entries if entry is not found)
    replaced = msgspec.structs.replace(found, **given)
    return tuple(replaced if entry is found else entry for entry in entries)


def _one_line(text: str) -> str:
    """Return `text` in one line that every wire can carry: half a surrogate pair becomes a question mark."""
    return " ".join(text.encode(errors="replace").decode().split())


def _with_new(entries: tuple[Entry, ...], given: Mapping[str, Any], new_id: int) -> tuple[Entry, ...] | Refusal:
    if "content" not in given:
        return Refusal("a new one needs `content`.")
    return (*entries, Entry(id=new_id, **given))
