"""What a session is told beside the base prompt: where and when it is, its mode, and what it has to do."""

from pathlib import Path

from msgspec import Struct

from scaffold.agent.modes import Modes, mode_words
from scaffold.core.legible import legible
from scaffold.core.ports import Clock
from scaffold.core.todo import Todo
from scaffold.git.branch import branch_of
from scaffold.tools.todos import Todos, line
from scaffold.tools.workspace import shown_name

ATTENDED = (
    "The user reads along and can be asked: end your reply with a question that only they can answer. "
    "Decide small things yourself, and say what you decided."
)
ALONE = "Nobody answers questions while you work: decide, and say what you decided."
TODOS_SHOWN = 8_000
"""Characters, about, that the list of todos may take; TodoRead has all of it."""


class Scene(Struct, frozen=True, kw_only=True):
    """Where a session takes place."""

    cwd: Path
    platform: str
    attended: bool
    """Whether somebody is there who can be asked."""
    clock: Clock


class SessionContext:
    """The context of a session. Implements `agent.outside.Context`.

    It takes in whatever changed when it is renewed and when the mode is another; until then it stays the same, for the
    sake of what providers cached. What is to be done is in the answers of the tools anyway.
    """

    def __init__(self, scene: Scene, modes: Modes, todos: Todos) -> None:
        self._scene = scene
        self._modes = modes
        self._todos = todos
        self.renew()

    def text(self) -> str:
        """Return the words."""
        if self._modes.current != self._mode:
            self.renew()
        return self._text

    def renew(self) -> None:
        """Take in the day, the branch, the mode and the list of todos as they are now."""
        self._mode = self._modes.current
        self._text = "\n\n".join(filter(None, (self._place(), mode_words(self._mode), _told(self._todos.entries))))

    def _place(self) -> str:
        scene = self._scene
        branch = branch_of(scene.cwd)
        lines = [
            f"Working directory: {shown_name(legible(str(scene.cwd)))}",
            f"Platform: {scene.platform}",
            f"Date: {scene.clock.now().date().isoformat()}",
            *([f"Git branch: {branch}"] if branch else []),
            f"Mode: {self._mode}",
            ATTENDED if scene.attended else ALONE,
        ]
        return "\n".join(lines)


def _told(todos: tuple[Todo, ...]) -> str:
    """Return the list, empty if there is none; of one that is too long what is completed is left out first."""
    if not todos:
        return ""
    lines = [line(todo) for todo in todos]
    if _long(lines):
        lines = [line(todo) for todo in todos if todo.status != "completed"]
    while _long(lines):
        lines = lines[: len(lines) // 2]
    left_out = len(todos) - len(lines)
    more = [f"... {left_out} more; TodoRead has them"] if left_out else []
    return "\n".join(["Your todo list:", *lines, *more])


def _long(lines: list[str]) -> bool:
    return sum(map(len, lines)) > TODOS_SHOWN
