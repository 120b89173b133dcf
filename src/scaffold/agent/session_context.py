"""A session's prompt context: directory, date and mode, and the todo list as a reminder."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from scaffold.agent.files_note import files_note
from scaffold.agent.modes import CurrentMode, mode_instructions
from scaffold.core.conversation import Todo
from scaffold.core.ports import Clock
from scaffold.core.printable_text import utf8_safe
from scaffold.git.checkouts.worktree_metadata import current_branch, find_checkout
from scaffold.host.startup import importing
from scaffold.tools.todos import Todos, format_todo
from scaffold.tools.workspace import printable_name

TODO_LIST_CHARS = 2_000  # approximate limit of the todo list in each request; TodoRead returns all of it


class TodoContext(Struct, frozen=True):
    """A context that never changes, with a todo list at the end of each request. Implements `io_port.PromptContext`."""

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


ATTENDED_TEXT = (
    "The user is present. To ask something that only they can answer, end your reply with the question. "
    "Decide small things yourself, and say what you decided."
)
UNATTENDED_TEXT = "No user can answer questions while you work: decide, and say what you decided."


class SessionEnvironment(Struct, frozen=True, kw_only=True):
    """The environment of a session."""

    cwd: Path
    platform: str
    attended: bool
    """Whether the user is present and can be asked."""
    clock: Clock
    elsewhere: str = ""
    """The directory in which the conversation began; empty if it is this one."""
    repository: str = ""
    """The text of `repository_note`; it stays as it was at the start."""


class SessionContext:
    """The context of a session. Implements `io_port.PromptContext`.

    It is updated on `renew` and when the mode changes; until then it stays the same, for the provider's cache. Memories
    and the todo list are the reminder, so they are never out of date.
    """

    def __init__(self, environment: SessionEnvironment, modes: CurrentMode, todos: Todos) -> None:
        self._environment = environment
        self._modes = modes
        self._todos = todos
        self.recalled = ""
        """The memories that go with the last message: part of each request, never of the conversation."""
        self.renew()

    def text(self) -> str:
        """Return the text, updated if the mode changed."""
        if self._modes.current != self._mode:
            self.renew()
        return self._text

    def reminder(self) -> str:
        """Return the memories for the last message and the todo list; empty without both."""
        return "\n\n".join(filter(None, (self.recalled, todo_reminder(self._todos.entries))))

    def renew(self) -> None:
        """Update date, branch and mode."""
        self._mode = self._modes.current
        self._text = "\n\n".join(filter(None, (self._environment_text(), mode_instructions(self._mode))))

    def _environment_text(self) -> str:
        environment = self._environment
        branch = current_branch(environment.cwd)
        lines = [
            f"Working directory: {printable_name(utf8_safe(str(environment.cwd)))}",
            *(
                [f"This conversation began in {printable_name(environment.elsewhere)}."]
                if environment.elsewhere
                else []
            ),
            f"Platform: {environment.platform}",
            f"Date: {environment.clock.now().date().isoformat()}",
            *([f"Git branch: {branch}"] if branch else []),
            f"Mode: {self._mode}",
            ATTENDED_TEXT if environment.attended else UNATTENDED_TEXT,
            *([environment.repository] if environment.repository else []),
        ]
        return "\n".join(lines)


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


async def folder_note(folder: Path, environ: Mapping[str, str]) -> str:
    """Return the note for the agent about its folder; git is loaded only in a repository."""
    if find_checkout(folder) is None:
        return files_note(folder)
    with importing():
        from scaffold.agent.repository_note import repository_note
    return await repository_note(folder, environ)
