"""Events: what happened, appended in the same transaction as the change they tell of."""

from datetime import datetime
from typing import Literal

from msgspec import Struct

from scaffold.core.ids import Assertion, Commit, Key
from scaffold.core.states import FactState, Outcome, Phase


class RunOpened(Struct, frozen=True, tag="run_opened"):
    """A run was laid out in the store."""

    request: str
    base_sha: Commit
    session_branch: str
    goals: int
    actions: int


class RunMoved(Struct, frozen=True, tag="run_moved"):
    """A run changed its status."""

    status: str
    reason: str | None


class RunTaken(Struct, frozen=True, tag="run_taken"):
    """A process became the owner of the run."""

    pid: int
    fence: int


class GoalMoved(Struct, frozen=True, tag="goal_moved"):
    """A goal changed its status."""

    goal: str
    status: str
    reason: str | None


class ActionMoved(Struct, frozen=True, tag="action_moved"):
    """An action changed its status."""

    action: Key
    status: str
    reason: str | None


class AttemptQueued(Struct, frozen=True, tag="attempt_queued"):
    """An attempt was dispatched."""

    action: Key
    number: int
    base_sha: Commit


class AttemptAdvanced(Struct, frozen=True, tag="attempt_advanced"):
    """An attempt entered a phase."""

    action: Key
    number: int
    phase: Phase


class AttemptEnded(Struct, frozen=True, tag="attempt_ended"):
    """An attempt is over."""

    action: Key
    number: int
    outcome: Outcome
    error: str | None


class Landed(Struct, frozen=True, tag="landed"):
    """The session branch moved to a commit that carries an action's work."""

    action: Key
    commit: Commit


class FactShown(Struct, frozen=True, tag="fact_shown"):
    """An assertion became a fact, went stale, or was refuted."""

    goal: str
    assertion: Assertion
    state: FactState
    commit: Commit


class Noticed(Struct, frozen=True, tag="noticed"):
    """Something a user should know: a recovery, a warning, a pause."""

    level: Literal["info", "warning"]
    text: str


Event = (
    RunOpened
    | RunMoved
    | RunTaken
    | GoalMoved
    | ActionMoved
    | AttemptQueued
    | AttemptAdvanced
    | AttemptEnded
    | Landed
    | FactShown
    | Noticed
)


class Recorded(Struct, frozen=True):
    """An event as stored; `seq` rises by the order of commits."""

    seq: int
    at: datetime
    event: Event
