"""Plans: goals with a desired state, and the actions that achieve it."""

from typing import Literal

from msgspec import Struct

from scaffold.core.contract import Contract
from scaffold.core.ids import ActionKey, Assertion

ActionKind = Literal["compound", "primitive"]
Method = Literal["htn", "story", "dag", "single"]

DEFAULT_ROLE = "implementation"


class ActionSpec(Struct, frozen=True, kw_only=True):
    """A node of a plan: it may run when every precondition holds; its effects hold once it has landed."""

    key: ActionKey
    description: str = ""
    kind: ActionKind = "primitive"
    role: str = DEFAULT_ROLE
    parent: ActionKey | None = None
    preconditions: tuple[Assertion, ...] = ()
    effects: tuple[Assertion, ...] = ()
    files: tuple[str, ...] = ()
    """Paths and globs the action may change; empty means unknown."""
    contract: Contract | None = None


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
