"""A session's prompt context: directory, date and mode, and the todo list as a reminder."""

from pathlib import Path

from msgspec import Struct

from scaffold.agent.modes import CurrentMode, mode_instructions
from scaffold.agent.todo_reminder import todo_reminder
from scaffold.core.ports import Clock
from scaffold.core.printable_text import utf8_safe
from scaffold.git.checkouts.worktree_metadata import current_branch
from scaffold.tools.todos import Todos
from scaffold.tools.workspace import printable_name

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
    """The context of a session. Implements `agent.ports.PromptContext`.

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
        self._text = "\n\n".join(filter(None, (self._place(), mode_instructions(self._mode))))

    def _place(self) -> str:
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
