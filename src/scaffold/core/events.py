"""Events: what happened. Each is appended in the same transaction as the change it records."""

from datetime import datetime
from typing import Literal

from msgspec import Struct

from scaffold.core.ids import ActionKey, Assertion, Commit
from scaffold.core.landing.conflict import FileMerge
from scaffold.core.model import FileGrantor, PlanningEvent, PlanningTurnOutcome
from scaffold.core.proof.contract import ContractPhase
from scaffold.core.states import AttemptOutcome, AttemptPhase, FactState


class RunCreated(Struct, frozen=True, tag="run_created"):
    """A run was created in the store, with its goals and actions."""

    request: str
    base_sha: Commit
    session_branch: str
    goals: int
    actions: int


class RunStatusChanged(Struct, frozen=True, tag="run_status_changed"):
    """A run's status changed."""

    status: str
    reason: str | None


class RunClaimed(Struct, frozen=True, tag="run_claimed"):
    """A process became the run's owner."""

    pid: int
    fence: int


class GoalStatusChanged(Struct, frozen=True, tag="goal_status_changed"):
    """A goal's status changed."""

    goal: str
    status: str
    reason: str | None


class ActionStatusChanged(Struct, frozen=True, tag="action_status_changed"):
    """An action's status changed."""

    action: ActionKey
    status: str
    reason: str | None


class AttemptQueued(Struct, frozen=True, tag="attempt_queued"):
    """An attempt was queued for a worker."""

    action: ActionKey
    number: int
    base_sha: Commit


class AttemptPhaseChanged(Struct, frozen=True, tag="attempt_phase_changed"):
    """An attempt entered a phase."""

    action: ActionKey
    number: int
    phase: AttemptPhase


class AttemptWaitChanged(Struct, frozen=True, tag="attempt_wait_changed"):
    """An attempt began to wait for a human, and takes no slot meanwhile; or it has a slot again and goes on."""

    action: ActionKey
    number: int
    item: str | None
    """The inbox item that it waits for; None if it goes on."""


class AttemptEnded(Struct, frozen=True, tag="attempt_ended"):
    """An attempt ended."""

    action: ActionKey
    number: int
    outcome: AttemptOutcome
    error: str | None


class PlanExtended(Struct, frozen=True, tag="plan_extended"):
    """Goals or actions were added to an existing run."""

    goal: str
    under: ActionKey | None
    """The compound that was decomposed; None for actions at the top level of the goal."""
    actions: tuple[ActionKey, ...]


class PlanningTurnStarted(Struct, frozen=True, tag="planning_turn_started"):
    """The planner or a supervisor's agent was asked to plan."""

    event: PlanningEvent
    goal: str | None
    action: ActionKey | None


class PlanningTurnEnded(Struct, frozen=True, tag="planning_turn_ended"):
    """A planning turn ended, with or without a result."""

    event: PlanningEvent
    goal: str | None
    action: ActionKey | None
    outcome: PlanningTurnOutcome
    error: str | None


class AssertionProposed(Struct, frozen=True, tag="assertion_proposed"):
    """An agent claimed that an assertion holds or does not hold. A claim is not evidence and changes no fact."""

    goal: str
    assertion: Assertion
    holds: bool
    evidence: str


class SupervisorStarted(Struct, frozen=True, tag="supervisor_started"):
    """A supervisor process was started for the goal."""

    goal: str
    pid: int


class SupervisorEnded(Struct, frozen=True, tag="supervisor_ended"):
    """The goal's supervisor process exited."""

    goal: str
    code: int
    """Exit code; negative for the signal that killed it."""


class ContractSealed(Struct, frozen=True, tag="contract_sealed"):
    """A contract was stored: as a draft before the work, or in its final form after it."""

    action: ActionKey
    phase: ContractPhase
    sha256: str
    checks: int


class FilesGranted(Struct, frozen=True, tag="files_granted"):
    """Entries were added to an action's files because its agent asked for them."""

    action: ActionKey
    paths: tuple[str, ...]
    by: FileGrantor
    reason: str


class BaselineCaptured(Struct, frozen=True, tag="baseline_captured"):
    """A gate's result without the run's changes was recorded, or taken from an earlier run (`reused`)."""

    gate: str
    commit: Commit
    passed: int
    failed: int
    reused: bool


class CritiqueRecorded(Struct, frozen=True, tag="critique_recorded"):
    """A critic scored an attempt's verified work."""

    action: ActionKey
    iteration: int
    score: int
    """From 3 to 9."""
    passed: bool
    """Whether the work passed verification."""
    done: bool
    """Whether the loop of work and critique ends here."""


class VerificationFailed(Struct, frozen=True, tag="verification_failed"):
    """An action used up its iterations without passing; none of its work lands."""

    action: ActionKey
    iterations: int
    summary: str


class ActionLanded(Struct, frozen=True, tag="action_landed"):
    """The session branch moved to a commit that contains an action's work."""

    action: ActionKey
    commit: Commit


class CandidateMerged(Struct, frozen=True, tag="candidate_merged"):
    """A candidate was in conflict with what landed before it; `files` are those that both sides changed."""

    action: ActionKey
    files: tuple[FileMerge, ...]


class ActionReverted(Struct, frozen=True, tag="action_reverted"):
    """The session branch moved to a commit that undoes an action's work."""

    action: ActionKey
    commit: Commit


class WorkTaken(Struct, frozen=True, tag="work_taken"):
    """Work of the run was taken to a branch of the user, or a pull request shows it."""

    how: str
    """The purpose of the branch move: `ff`, `squash` or `pr`."""
    branch: str
    commit: Commit
    url: str = ""


class FactStateChanged(Struct, frozen=True, tag="fact_state_changed"):
    """A fact became valid, stale or refuted."""

    goal: str
    assertion: Assertion
    state: FactState
    commit: Commit
    only_orders: bool = False
    """Whether it only orders the steps of a compound, and says nothing about the branch."""


class NoticeRaised(Struct, frozen=True, tag="notice_raised"):
    """Information for the user: a recovery, a warning, a pause."""

    level: Literal["info", "warning"]
    text: str


# Stored events are decoded by their tags, so a tag or field that is renamed needs a migration.
Event = (
    RunCreated
    | RunStatusChanged
    | RunClaimed
    | GoalStatusChanged
    | ActionStatusChanged
    | AttemptQueued
    | AttemptPhaseChanged
    | AttemptWaitChanged
    | AttemptEnded
    | PlanExtended
    | PlanningTurnStarted
    | PlanningTurnEnded
    | AssertionProposed
    | SupervisorStarted
    | SupervisorEnded
    | ContractSealed
    | FilesGranted
    | BaselineCaptured
    | CritiqueRecorded
    | VerificationFailed
    | ActionLanded
    | CandidateMerged
    | ActionReverted
    | WorkTaken
    | FactStateChanged
    | NoticeRaised
)


class StoredEvent(Struct, frozen=True):
    """An event as stored; `seq` increases in commit order."""

    seq: int
    at: datetime
    event: Event
