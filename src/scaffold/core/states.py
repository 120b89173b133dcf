"""The states of runs, goals, actions and attempts, and which move leads where.

A state is a class with just its fields; its tag is the word users see. Each table maps a
status to the statuses it may be reached from, so that a compare-and-set needs one look-up.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec
from msgspec import Struct


class Pending(Struct, frozen=True, tag="pending"):
    """Waits for its preconditions, or for a worker."""


class Running(Struct, frozen=True, tag="running"):
    """An attempt works on it; of a compound: its children may run."""


class Verifying(Struct, frozen=True, tag="verifying"):
    """The work is being checked where it was done."""


class Landing(Struct, frozen=True, tag="landing"):
    """A candidate was handed in and waits to land."""


class Completed(Struct, frozen=True, tag="completed"):
    """Landed, with evidence; of goals and runs: the desired state holds."""


class Failed(Struct, frozen=True, tag="failed"):
    """Given up, for `reason`, until a human retries it."""

    reason: str


class Blocked(Struct, frozen=True, tag="blocked"):
    """Cannot go on, for `reason`: `dependency_failed:<action id>`, or `waits_for:<id of an inbox item>`."""

    reason: str


class Skipped(Struct, frozen=True, tag="skipped"):
    """Not needed any more, for `reason`."""

    reason: str


class Cancelled(Struct, frozen=True, tag="cancelled"):
    """Ended by a human, for good."""


class Planning(Struct, frozen=True, tag="planning"):
    """Being laid out; nothing has started."""


class Active(Struct, frozen=True, tag="active"):
    """Being carried out."""


class Paused(Struct, frozen=True, tag="paused"):
    """Stopped in good order, for `reason`; goes on when resumed."""

    reason: str


ActionState = Pending | Running | Verifying | Landing | Completed | Failed | Blocked | Skipped | Cancelled
GoalState = Planning | Active | Paused | Completed | Failed | Cancelled
RunState = Planning | Active | Paused | Completed | Failed | Cancelled

INTERRUPTED = "interrupted"
"""Shown for a run that is active though its owner is dead; derived, never stored."""

WAITS_FOR = "waits_for:"
"""What the reason of an action begins with that is blocked until a human has decided."""

Moves = Mapping[str, frozenset[str]]


def _moves(**table: str) -> Moves:
    return {to: frozenset(sources.split()) for to, sources in table.items()}


PRIMITIVE_MOVES = _moves(
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
COMPOUND_MOVES = _moves(
    pending="running failed blocked",
    running="pending completed",
    completed="running",
    failed="pending running",
    blocked="pending",
    skipped="pending running blocked",
    cancelled="pending running failed blocked",
)
GOAL_MOVES = _moves(
    planning="",
    active="planning paused completed",
    paused="planning active failed",
    completed="active",
    failed="planning active paused",
    cancelled="planning active paused failed",
)
"""A goal that was reached goes on once a fact that it desires has fallen."""
RUN_MOVES: Moves = {**GOAL_MOVES, "active": frozenset({"planning", "paused"})}

AttemptStatus = Literal["queued", "claimed", "ended"]
Phase = Literal["workspace", "executing", "verifying", "critiquing", "candidate", "landing", "recorded"]
PHASES: tuple[Phase, ...] = ("workspace", "executing", "verifying", "critiquing", "candidate", "landing", "recorded")
"""In order; an attempt may step back from `verifying` or `critiquing` to `executing` when its work is sent back."""

WORKER_PHASES: frozenset[Phase] = frozenset({"workspace", "executing", "verifying", "critiquing"})
"""Phases in which a worker process must be alive; later ones belong to the landing owner."""

Outcome = Literal[
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
    "waiting",
]
"""How an attempt ended; one that ended `waiting` put its work away until a human decides."""
OWN_FAILURES: frozenset[Outcome] = frozenset({"contract_failed", "gate_failed", "executor_failed", "timeout"})
"""Outcomes that count toward an action's maximum of attempts; the others are nobody's failure."""

FactState = Literal["holds", "stale", "refuted"]
EvidenceKind = Literal["contract", "change", "review", "gate", "human", "trivial"]


def status_of(state: ActionState | GoalState | RunState) -> str:
    """Return the word users see for `state`, e.g. `pending`."""
    return str(state.__struct_config__.tag)


def reason_of(state: ActionState | GoalState | RunState) -> str | None:
    """Return why `state` holds, None for states that need no reason."""
    match state:
        case Failed(reason=reason) | Blocked(reason=reason) | Skipped(reason=reason) | Paused(reason=reason):
            return reason
        case _:
            return None


def waiting_for(item_id: str) -> Blocked:
    """Return the state of an action that goes on once a human has decided about the inbox item."""
    return Blocked(f"{WAITS_FOR}{item_id}")


def waits_for(state: ActionState) -> str | None:
    """Return the id of the inbox item that an action waits for, None if it waits for no human."""
    if isinstance(state, Blocked) and state.reason.startswith(WAITS_FOR):
        return state.reason.removeprefix(WAITS_FOR)
    return None


def action_state(status: str, reason: str | None) -> ActionState:
    """Rebuild an action's state from its stored words; msgspec.ValidationError if there is no such status."""
    return msgspec.convert({"type": status, "reason": reason or ""}, ActionState)  # type: ignore[no-any-return]


def goal_state(status: str, reason: str | None) -> GoalState:
    """Rebuild a goal's or run's state from its stored words; msgspec.ValidationError if there is no such status."""
    return msgspec.convert({"type": status, "reason": reason or ""}, GoalState)  # type: ignore[no-any-return]
