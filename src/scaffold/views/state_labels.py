"""A plain word for the state of a task or an agent, shown beside the exact status."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal, assert_never

from scaffold.core.model import Attempt, Goal, HaltRequest
from scaffold.core.printable_text import count_of
from scaffold.core.states import (
    WORKER_PHASES,
    ActionState,
    Active,
    AttemptOutcome,
    Cancelled,
    Completed,
    Failed,
    Paused,
    Planning,
    reason_of,
    status_of,
)
from scaffold.plan.failures.worker_deaths import TELL_AFTER, must_ask
from scaffold.views.text_format import local_time

ENDING: Mapping[HaltRequest, str] = {"pause": "pausing", "stop": "stopping", "cancel": "cancelling"}

TASK_WORDS: Mapping[str, str] = {"running": "in_progress", "landing": "verifying", "completed": "done"}
"""The words of tasks that are not those of their actions."""
AgentState = Literal["pending", "running", "paused", "waiting_approval", "done", "failed", "cancelled"]

STATE_BY_OUTCOME: Mapping[AttemptOutcome, AgentState] = {
    "landed": "done",
    "recorded": "done",
    "waiting": "done",
    "budget": "paused",
    "unavailable": "paused",
    "no_access": "paused",
    "cancelled": "cancelled",
}
"""An agent's state after its attempt, unless a human is asked; any other outcome is a failure."""
STATUS_MARKS = {
    "completed": ("✓", "green"),
    "holds": ("✓", "green"),
    "pass": ("✓", "green"),
    "ok": ("✓", "green"),
    "planning": ("▶", "cyan"),
    "running": ("▶", "cyan"),
    "active": ("▶", "cyan"),
    "verifying": ("?", "cyan"),
    "landing": ("↓", "cyan"),
    "failed": ("✗", "red"),
    "fail": ("✗", "red"),
    "error": ("✗", "red"),
    "timeout": ("✗", "red"),
    "vacuous": ("✗", "red"),
    "refuted": ("✗", "red"),
    "blocked": ("■", "yellow"),
    "interrupted": ("■", "yellow"),
    "stale": ("!", "yellow"),
    "warn": ("!", "yellow"),
    "skipped": ("-", "bright_black"),
    "cancelled": ("-", "bright_black"),
    "paused": ("■", "yellow"),
    "saved": ("■", "yellow"),
}
"""A mark and a color for each status; the word is always printed next to them."""
SUCCESSFUL_OUTCOMES = frozenset({"landed", "recorded"})
"""Outcomes of attempts whose effects are facts; a review is recorded without landing a commit."""
AGREEMENTS = frozenset({"review", "human"})
"""Kinds of evidence for an agreement: a reviewer or a human approved the work."""
NARRATIVE_EVIDENCE = frozenset({"change", "review", "human"})
"""Kinds of evidence that are words instead of a command."""


def where_landed(attempt: Attempt) -> str:
    """Return how a successful attempt ended, with its commit: `landed as 0a1b2c3d`."""
    if attempt.head_sha is not None:
        return f"{attempt.outcome or 'done'} as {attempt.head_sha[:8]}"
    return "its change was in the base already" if attempt.outcome == "landed" else attempt.outcome or "done"


def task_state(state: ActionState) -> str:
    """Return the word for a task: that of its action, or a plainer one."""
    return TASK_WORDS.get(status_of(state), status_of(state))


def goal_reason(goal: Goal, now: datetime) -> str | None:
    """Return the reason for a goal's state, or why it starts nothing; None without one."""
    # Fewer deaths in a row are retried silently.
    if goal.deaths < TELL_AFTER or not isinstance(goal.state, Active | Paused):
        return reason_of(goal.state)
    died = f"{count_of(goal.deaths, 'worker')} died in a row"
    if must_ask(of_goal=goal.deaths, of_action=0):
        return f"waits for you: {died}"
    if goal.rest is not None and goal.rest.includes(now):
        return f"waits: {died}; it is tried again at {local_time(goal.rest.until, now)}"
    return f"{died}; it is tried again"


def ending_note(request: HaltRequest, *, working: int, landing: int) -> str:
    """Return how a run that was asked to end is ending, e.g. `pausing, 1 agent is finishing`."""
    end = "finishing" if request == "pause" else "ending"
    if working:
        return f"{ENDING[request]}, {count_of(working, 'agent')} {'is' if working == 1 else 'are'} {end}"
    if landing and request == "pause":
        return f"{ENDING[request]}, {count_of(landing, 'candidate')} {'is' if landing == 1 else 'are'} landing"
    return ENDING[request]


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
    # Its worker has handed in, so whether its process is gone says nothing.
    if attempt.phase not in WORKER_PHASES:
        return "waiting_approval" if asks else "done"
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
        case Failed():
            return "failed"
        case Cancelled():
            return "cancelled"
        case _:
            assert_never(goal.state)
