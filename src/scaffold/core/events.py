"""Events: what happened, appended in the same transaction as the change they tell of."""

from datetime import datetime
from typing import Literal

from msgspec import Struct

from scaffold.core.contract import SealPhase
from scaffold.core.ids import Assertion, Commit, Key
from scaffold.core.model import PlanningEvent, TurnOutcome
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


class PlanGrew(Struct, frozen=True, tag="plan_grew"):
    """Goals or actions were added to a run that is laid out."""

    goal: str
    under: Key | None
    """The compound that was broken down; None at the top of the goal."""
    actions: tuple[Key, ...]


class TurnBegan(Struct, frozen=True, tag="turn_began"):
    """The planner, or a supervisor's agent, was asked."""

    event: PlanningEvent
    goal: str | None
    action: Key | None


class TurnEnded(Struct, frozen=True, tag="turn_ended"):
    """It has answered, or could not."""

    event: PlanningEvent
    goal: str | None
    action: Key | None
    outcome: TurnOutcome
    error: str | None


class Proposed(Struct, frozen=True, tag="proposed"):
    """An agent claims that an assertion holds, or does not; whether it does is for the evidence to say."""

    goal: str
    assertion: Assertion
    holds: bool
    evidence: str


class SupervisorBegan(Struct, frozen=True, tag="supervisor_began"):
    """A process pursues the goal from now on."""

    goal: str
    pid: int


class SupervisorEnded(Struct, frozen=True, tag="supervisor_ended"):
    """The process that pursued the goal is gone."""

    goal: str
    code: int
    """Exit code; negative for the signal that ended it."""


class ContractSealed(Struct, frozen=True, tag="contract_sealed"):
    """A contract was written down before the work, or strengthened after it."""

    action: Key
    phase: SealPhase
    sha256: str
    checks: int


class BaselineCaptured(Struct, frozen=True, tag="baseline_captured"):
    """It is known how a gate does without the run's work."""

    gate: str
    commit: Commit
    passed: int
    failed: int
    reused: bool


class Criticised(Struct, frozen=True, tag="criticised"):
    """A critic looked at work that was verified before."""

    action: Key
    iteration: int
    score: int
    """Of 9."""
    passed: bool
    """Whether the work passed its verification."""
    done: bool
    """Whether this ends the loop."""


class VerificationFailed(Struct, frozen=True, tag="verification_failed"):
    """An action used up its iterations without passing; nothing of it lands."""

    action: Key
    iterations: int
    summary: str


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
    | PlanGrew
    | TurnBegan
    | TurnEnded
    | Proposed
    | SupervisorBegan
    | SupervisorEnded
    | ContractSealed
    | BaselineCaptured
    | Criticised
    | VerificationFailed
    | Landed
    | FactShown
    | Noticed
)


class Recorded(Struct, frozen=True):
    """An event as stored; `seq` rises by the order of commits."""

    seq: int
    at: datetime
    event: Event
