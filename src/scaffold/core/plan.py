"""Plans: goals with a desired state, and the actions that achieve it."""

from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct

from scaffold.core.ids import ActionKey, Assertion
from scaffold.core.proof.contract import Contract

ActionKind = Literal["compound", "primitive"]
Method = Literal["htn", "story", "dag", "single", "audit", "round"]
TaskType = Literal["SETUP", "FEATURE", "BUGFIX", "REFACTOR"]
Workspace = Literal["own", "parent"]
"""A worktree for each attempt, whose work lands by itself | the parent's, which its children use one after another."""
WorkKind = Literal["change", "review", "step"]
"""A commit that lands | a verdict about what has landed | a step towards what its compound lands, a commit or none."""
DEFAULT_ROLE = "implementation"


class TaskText(Struct, frozen=True, kw_only=True):
    """What is asked for, in the words of the user or the planner; see `full_text`."""

    title: str = ""
    """One line; empty if there is only a description."""
    description: str = ""
    acceptance: tuple[str, ...] = ()
    """The acceptance criteria, in order."""
    verification_intent: str = ""
    """What checks should show; a contract is drafted from it."""
    type: TaskType | None = None
    notes: str = ""
    """Anything else that helps to do it."""


class ActionSpec(TaskText, frozen=True, kw_only=True):
    """A node of a plan: it may run when every precondition holds; its effects hold once it has landed."""

    key: ActionKey
    kind: ActionKind = "primitive"
    role: str = DEFAULT_ROLE
    parent: ActionKey | None = None
    preconditions: tuple[Assertion, ...] = ()
    effects: tuple[Assertion, ...] = ()
    files: tuple[str, ...] = ()
    """Paths and globs the action may change; empty means unknown."""
    contract: Contract | None = None
    workspace: Workspace = "own"
    executor: str = ""
    """Who does the work, by name; empty for the one that the run chooses."""
    method: Method | None = None
    """None: `htn` for a compound, and for a primitive what its source says."""

    @property
    def stored_description(self) -> str:
        """The description, or else the title or the key."""
        return self.description or self.title or self.key


class GoalSpec(Struct, frozen=True, kw_only=True):
    """A desired world state and the actions to reach it."""

    name: str
    description: str = ""
    goal_state: tuple[Assertion, ...] = ()
    persistent: bool = False
    actions: tuple[ActionSpec, ...] = ()


class Plan(Struct, frozen=True, kw_only=True):
    """The goals of one request, in the order they were written."""

    goals: tuple[GoalSpec, ...]

    @property
    def actions(self) -> tuple[ActionSpec, ...]:
        """The actions of all goals, in order."""
        return tuple(action for goal in self.goals for action in goal.actions)


class Finding(Struct, frozen=True, kw_only=True):
    """An error or warning about a plan, found before it runs."""

    code: str
    severity: Literal["error", "warning"]
    goal: str | None = None
    action: str | None = None
    message: str
    fix: str
    line: int | None = None
    """From 1; None if the plan was not read from text."""
    column: int | None = None
    example: str = ""
    """The right form, as text to copy."""


def forced_files(files: Sequence[str], contract: Contract | None) -> tuple[str, ...]:
    """Return the declared `files` that are added even if git ignores them: the contract says that they must exist."""
    return tuple(path for path in (contract.must_exist if contract else ()) if path in files)


def is_review_role(role: str) -> bool:
    """Return True if the role only reads and gives a verdict."""
    return role.endswith("_review") or role == "reviewer"


def text_fields(task: TaskText) -> dict[str, Any]:
    """Return the fields of TaskText alone, to make another struct with the same text."""
    return {name: getattr(task, name) for name in TaskText.__struct_fields__}


def headline(task: TaskText) -> str:
    """Return the title, or the first line of the description without one."""
    return task.title.strip() or task.description.strip().partition("\n")[0]


def full_text(task: TaskText) -> str:
    """Return all that is asked for, as paragraphs: title, description, criteria, verification intent, notes."""
    title, description = task.title.strip(), task.description.strip()
    parts = [title, "" if description == title else description]
    if task.acceptance:
        parts.append("\n".join(["Accepted when:", *(f"- {each}" for each in task.acceptance)]))
    if task.verification_intent:
        parts.append(f"To be verified: {task.verification_intent}")
    if task.notes:
        parts.append(f"Notes: {task.notes}")
    return "\n\n".join(filter(None, parts))
