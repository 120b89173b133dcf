"""A session's prompt context: directory, date, mode and todo list."""

from pathlib import Path

from msgspec import Struct

from scaffold.agent.modes import CurrentMode, mode_instructions
from scaffold.core.ports import Clock
from scaffold.core.printable_text import utf8_safe
from scaffold.core.todo import Todo
from scaffold.git.worktree_metadata import current_branch
from scaffold.tools.todos import Todos, format_todo
from scaffold.tools.workspace import printable_name

ATTENDED_TEXT = (
    "The user is present. To ask something that only they can answer, end your reply with the question. "
    "Decide small things yourself, and say what you decided."
)
UNATTENDED_TEXT = "No user can answer questions while you work: decide, and say what you decided."
TODO_LIST_CHARS = 8_000
"""Approximate limit of the todo list in the context; TodoRead returns all of it."""


class SessionEnvironment(Struct, frozen=True, kw_only=True):
    """The environment of a session."""

    cwd: Path
    platform: str
    attended: bool
    """Whether the user is present and can be asked."""
    clock: Clock


class SessionContext:
    """The context of a session. Implements `agent.ports.PromptContext`.

    It is updated on `renew` and when the mode changes; until then it stays the same, for the provider's cache. Changes
    of the todo list are in the tools' results anyway.
    """

    def __init__(self, environment: SessionEnvironment, modes: CurrentMode, todos: Todos) -> None:
        self._environment = environment
        self._modes = modes
        self._todos = todos
        self.renew()

    def text(self) -> str:
        """Return the text, updated if the mode changed."""
        if self._modes.current != self._mode:
            self.renew()
        return self._text

    def renew(self) -> None:
        """Update date, branch, mode and todo list."""
        self._mode = self._modes.current
        self._text = "\n\n".join(
            filter(None, (self._place(), mode_instructions(self._mode), _todo_section(self._todos.entries)))
        )

    def _place(self) -> str:
        environment = self._environment
        branch = current_branch(environment.cwd)
        lines = [
            f"Working directory: {printable_name(utf8_safe(str(environment.cwd)))}",
            f"Platform: {environment.platform}",
            f"Date: {environment.clock.now().date().isoformat()}",
            *([f"Git branch: {branch}"] if branch else []),
            f"Mode: {self._mode}",
            ATTENDED_TEXT if environment.attended else UNATTENDED_TEXT,
        ]
        return "\n".join(lines)


def _todo_section(todos: tuple[Todo, ...]) -> str:
    """Return the todo list as text, empty if there is none; a long list is cut, completed entries first."""
    if not todos:
        return ""
    lines = [format_todo(todo) for todo in todos]
    if _too_long(lines):
        lines = [format_todo(todo) for todo in todos if todo.status != "completed"]
    while _too_long(lines):
        lines = lines[: len(lines) // 2]
    left_out = len(todos) - len(lines)
    more = [f"... {left_out} more; TodoRead returns all"] if left_out else []
    return "\n".join(["Your todo list:", *lines, *more])


def _too_long(lines: list[str]) -> bool:
    return sum(map(len, lines)) > TODO_LIST_CHARS
