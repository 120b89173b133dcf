"""The state of a task or an agent as one of six words for people, in addition to the exact status."""

from collections.abc import Mapping
from typing import Literal, assert_never

from scaffold.core.model import Attempt, Goal
from scaffold.core.states import (
    WORKER_PHASES,
    ActionState,
    Active,
    AttemptOutcome,
    Blocked,
    Cancelled,
    Completed,
    Failed,
    Landing,
    Paused,
    Pending,
    Planning,
    Running,
    Skipped,
    Verifying,
)

TaskState = Literal["pending", "in_progress", "verifying", "blocked", "done", "failed"]
AgentState = Literal["pending", "running", "paused", "waiting_approval", "done", "failed"]

STATE_BY_OUTCOME: Mapping[AttemptOutcome, AgentState] = {
    "landed": "done",
    "recorded": "done",
    "waiting": "done",
    "budget": "paused",
    "unavailable": "paused",
}
"""An agent's state after its attempt, unless a human is asked; after every other outcome it has failed."""


def task_state(state: ActionState) -> TaskState:
    """Return the word for a task; a skipped one is done, a cancelled one has failed."""
    match state:
        case Pending():
            return "pending"
        case Running():
            return "in_progress"
        case Verifying() | Landing():
            return "verifying"
        case Blocked():
            return "blocked"
        case Completed() | Skipped():
            return "done"
        case Failed() | Cancelled():
            return "failed"
        case _:
            assert_never(state)


def worker_state(attempt: Attempt, *, asks: bool, gone: bool) -> AgentState:
    """Return the word for a worker.

    `asks` is whether a human must decide before it, or its next attempt, can continue; `gone` is whether its process
    has exited.
    """
    if attempt.outcome is not None:
        return (
            "waiting_approval"
            if asks and attempt.outcome == "waiting"
            else STATE_BY_OUTCOME.get(attempt.outcome, "failed")
        )
    if attempt.phase not in WORKER_PHASES:
        return "done"
    if gone:
        return "failed"
    if asks:
        return "waiting_approval"
    return "pending" if attempt.status == "queued" else "running"


def supervisor_state(goal: Goal, *, gone: bool) -> AgentState:
    """Return the word for the supervisor of a goal; `gone` is whether its process has exited."""
    match goal.state:
        case Planning():
            return "pending"
        case Active():
            return "failed" if gone else "running"
        case Paused():
            return "paused"
        case Completed():
            return "done"
        case Failed() | Cancelled():
            return "failed"
        case _:
            assert_never(goal.state)
