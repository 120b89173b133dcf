"""The states of runs, goals, actions and attempts, and the allowed transitions.

A state is a class with only the fields it needs; its tag is the status word users see. Each table maps a status to
the statuses it may be reached from, which is what a compare-and-set needs (`WHERE status IN (...)`).
"""

from collections.abc import Mapping
from typing import Literal

import msgspec
from msgspec import Struct


class Pending(Struct, frozen=True, tag="pending"):
    """Waiting for preconditions, for its parent, or for a free worker."""


class Running(Struct, frozen=True, tag="running"):
    """A primitive has an attempt in progress; a compound's children may run."""


class Verifying(Struct, frozen=True, tag="verifying"):
    """The contract and gates are running in the attempt's worktree."""


class Landing(Struct, frozen=True, tag="landing"):
    """The attempt's commit is a candidate, queued for landing."""


class Completed(Struct, frozen=True, tag="completed"):
    """An action landed with evidence; a goal's or run's desired state holds."""


class Failed(Struct, frozen=True, tag="failed"):
    """Failed for `reason`; stays so until it is retried."""

    reason: str


class Blocked(Struct, frozen=True, tag="blocked"):
    """Waiting on something outside its preconditions.

    `reason` is `dependency_failed:<action id>` or `waits_for:<inbox item id>`.
    """

    reason: str


class Skipped(Struct, frozen=True, tag="skipped"):
    """No longer needed, for `reason`."""

    reason: str


class Cancelled(Struct, frozen=True, tag="cancelled"):
    """Cancelled by a human; final."""


class Planning(Struct, frozen=True, tag="planning"):
    """The plan is being made; no action has started."""


class Active(Struct, frozen=True, tag="active"):
    """In progress."""


class Paused(Struct, frozen=True, tag="paused"):
    """Stopped cleanly for `reason`; `resume` continues it."""

    reason: str


PAUSED_BY_USER = "set aside by the user"
"""The reason of a goal that its user paused on its own: it stays paused when its run is resumed."""


class Saved(Struct, frozen=True, tag="saved"):
    """A run that the user has not agreed to start; only `resume` with its name starts it."""


ActionState = Pending | Running | Verifying | Landing | Completed | Failed | Blocked | Skipped | Cancelled
GoalState = Planning | Active | Paused | Completed | Failed | Cancelled
RunState = Planning | Active | Paused | Saved | Completed | Failed | Cancelled
INTERRUPTED = "interrupted"
"""Shown for an active run whose owner process is dead. Derived from the owner's liveness, never stored."""
WAITS_FOR_PREFIX = "waits_for:"
"""Prefix of the `reason` of an action that is blocked until a human decides an inbox item."""
WAITS_FOR_HUMAN = "waits for a human"
"""The beginning of the reason of a run that is paused until a human decides items of its inbox."""
OTHERS_FIRST = Blocked(f"{WAITS_FOR_PREFIX}the other actions, as its share of the budget is used up")
"""An action that goes on once no other one could."""
Transitions = Mapping[str, frozenset[str]]


def _transitions(**table: str) -> Transitions:
    return {to: frozenset(sources.split()) for to, sources in table.items()}


PRIMITIVE_TRANSITIONS = _transitions(
    pending="running verifying landing failed completed blocked",
    running="pending verifying",
    verifying="running",
    landing="verifying",
    completed="landing",
    failed="pending running verifying landing",
    blocked="pending",
    skipped="pending blocked",
    cancelled="pending running verifying landing failed blocked",
)
COMPOUND_TRANSITIONS = _transitions(
    pending="running failed blocked",
    running="pending completed",
    completed="running",
    failed="pending running",
    blocked="pending",
    skipped="pending running blocked",
    cancelled="pending running failed blocked",
)
GOAL_TRANSITIONS = _transitions(
    planning="",
    active="planning paused completed",
    paused="planning active failed",
    completed="active",
    failed="planning active paused",
    cancelled="planning active paused failed",
)
"""A completed goal becomes active again when a fact of its goal state is refuted."""
RUN_TRANSITIONS = _transitions(
    planning="",
    active="planning paused saved",
    paused="planning active failed completed",
    saved="planning active",
    completed="active",
    failed="planning active paused",
    cancelled="planning active paused saved failed",
)

AttemptStatus = Literal["queued", "claimed", "ended"]
AttemptPhase = Literal["workspace", "executing", "verifying", "critiquing", "candidate", "landing", "recorded"]
PHASES: tuple[AttemptPhase, ...] = (
    "workspace",
    "executing",
    "verifying",
    "critiquing",
    "candidate",
    "landing",
    "recorded",
)
"""In order. An attempt goes back from `verifying` or `critiquing` to `executing` for another iteration."""
WORKER_PHASES: frozenset[AttemptPhase] = frozenset({"workspace", "executing", "verifying", "critiquing"})
"""Phases that need a live worker process; later ones belong to the landing owner."""

AttemptOutcome = Literal[
    "landed",
    "recorded",
    "contract_failed",
    "gate_failed",
    "conflict",
    "executor_failed",
    "timeout",
    "budget",
    "cancelled",
    "lost",
    "unavailable",
    "no_access",
    "waiting",
    "restarted",
    "rejected",
]
"""How an attempt ended. `unavailable`: its model's endpoint was away; `no_access`: the endpoint refuses the key, the
quota or the model; `waiting`: its work is saved until a human decides; `restarted`: its step begins again, as its
agent asked; `rejected`: a human who was to approve its change wants it reworked."""
ORPHANED_BY_CRASH = "orphaned_by_crash"
"""The error of an attempt whose run, or worker, died; its outcome is `lost`."""
COUNTED_FAILURES: frozenset[AttemptOutcome] = frozenset(
    {"contract_failed", "gate_failed", "executor_failed", "timeout"}
)
"""Outcomes that count toward an action's attempt limit; the others are not the action's fault."""
CUT_OFF: frozenset[AttemptOutcome] = frozenset({"waiting", "lost", "cancelled", "budget", "unavailable", "no_access"})
"""Outcomes of attempts that something stopped before they were done: the next one continues them."""

DEATHLESS_OUTCOMES: frozenset[AttemptOutcome] = COUNTED_FAILURES | {
    *("landed", "recorded", "conflict", "waiting", "restarted", "rejected")
}
"""Outcomes of attempts whose worker lived as long as it had to; a series of deaths ends there."""
Escalation = Literal["again", "alternative", "learning", "smaller", "human", "failed"]
"""What follows from a failure: an attempt that knows the cause | one that takes another approach | one more, with a
learning that fits and is new to the action | a planner is asked for smaller actions | a human decides | the action has
failed for good."""

FactState = Literal["holds", "stale", "refuted"]
EvidenceKind = Literal["contract", "change", "review", "gate", "human", "merge", "trivial", "step", "audit"]


def status_of(state: ActionState | GoalState | RunState) -> str:
    """Return the status word users see for `state`, e.g. `pending`."""
    return str(state.__struct_config__.tag)


def reason_of(state: ActionState | GoalState | RunState) -> str | None:
    """Return the reason stored in `state`; None for states without one."""
    match state:
        case Failed(reason=reason) | Blocked(reason=reason) | Skipped(reason=reason) | Paused(reason=reason):
            return reason
        case _:
            return None


def blocked_on_inbox(item_id: str) -> Blocked:
    """Return the state of an action that waits for a decision on the inbox item."""
    return Blocked(f"{WAITS_FOR_PREFIX}{item_id}")


def awaited_inbox_id(state: ActionState) -> str | None:
    """Return the id of the inbox item the action waits for; None if it waits for no human decision."""
    if isinstance(state, Blocked) and state.reason.startswith(WAITS_FOR_PREFIX) and state != OTHERS_FIRST:
        return state.reason.removeprefix(WAITS_FOR_PREFIX)
    return None


def parse_action_state(status: str, reason: str | None) -> ActionState:
    """Return the action state for stored column values; raise msgspec.ValidationError for an unknown status."""
    return msgspec.convert({"type": status, "reason": reason or ""}, ActionState)  # type: ignore[no-any-return]


def parse_goal_state(status: str, reason: str | None) -> GoalState:
    """Return the goal state for stored column values; raise msgspec.ValidationError for an unknown status."""
    return msgspec.convert({"type": status, "reason": reason or ""}, GoalState)  # type: ignore[no-any-return]


def parse_run_state(status: str, reason: str | None) -> RunState:
    """Return the run state for stored column values; raise msgspec.ValidationError for an unknown status."""
    return msgspec.convert({"type": status, "reason": reason or ""}, RunState)  # type: ignore[no-any-return]
