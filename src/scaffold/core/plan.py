"""What a plan says: goals with a desired state, and actions that lead there."""

from typing import Literal

from msgspec import Struct

from scaffold.core.contract import Contract
from scaffold.core.ids import Assertion, Key

Kind = Literal["compound", "primitive"]
Method = Literal["htn", "story", "dag", "single"]

DEFAULT_ROLE = "implementation"


class ActionSpec(Struct, frozen=True, kw_only=True):
    """A node of a plan: when every precondition holds it may run; once landed, its effects hold."""

    key: Key
    description: str = ""
    kind: Kind = "primitive"
    role: str = DEFAULT_ROLE
    parent: Key | None = None
    preconditions: tuple[Assertion, ...] = ()
    effects: tuple[Assertion, ...] = ()
    files: tuple[str, ...] = ()
    """Paths and globs the action means to touch; empty means unknown."""
    contract: Contract | None = None


class GoalSpec(Struct, frozen=True, kw_only=True):
    """A desired world state and the actions that are to bring it about."""

    name: str
    description: str = ""
    goal_state: tuple[Assertion, ...] = ()
    persistent: bool = False
    actions: tuple[ActionSpec, ...] = ()


class Plan(Struct, frozen=True, kw_only=True):
    """All goals of one request, in the order they were written."""

    goals: tuple[GoalSpec, ...]

    @property
    def actions(self) -> tuple[ActionSpec, ...]:
        """The actions of all goals, in order."""
        return tuple(action for goal in self.goals for action in goal.actions)


class Finding(Struct, frozen=True, kw_only=True):
    """Something worth saying about a plan before it runs."""

    code: str
    severity: Literal["error", "warning"]
    goal: str | None = None
    action: str | None = None
    message: str
    fix: str
    line: int | None = None
    """From 1; None where the plan did not come from a text."""
    column: int | None = None
