"""Common words for states of tasks and agents: a table for each."""

import msgspec

from builders import a_goal, an_action, an_attempt
from scaffold.core.states import parse_action_state, parse_goal_state
from scaffold.views.state_labels import supervisor_state, task_state, worker_state

ATTEMPT = an_attempt(an_action("x"), status="claimed", phase="executing")


def test_every_status_of_an_action_has_its_word():
    """AL-3b: a task is pending, in_progress, verifying, blocked, done or failed."""
    table = {
        "pending": "pending",
        "running": "in_progress",
        "verifying": "verifying",
        "landing": "verifying",
        "completed": "done",
        "skipped": "skipped",
        "failed": "failed",
        "cancelled": "cancelled",
        "blocked": "blocked",
    }
    assert {status: task_state(parse_action_state(status, "because")) for status in table} == table


def test_every_moment_of_an_attempt_has_its_word():
    """AL-3b: an agent is pending, running, paused, waiting_approval, done, failed or cancelled."""
    rows = [
        ({"status": "queued", "phase": "workspace"}, False, "pending"),
        ({}, False, "running"),
        ({"phase": "verifying"}, False, "running"),
        ({}, True, "waiting_approval"),
        ({"phase": "candidate"}, True, "waiting_approval"),
        ({"phase": "candidate"}, False, "done"),
        ({"phase": "landing"}, False, "done"),
        ({"status": "ended", "outcome": "landed"}, True, "done"),
        ({"status": "ended", "outcome": "recorded"}, False, "done"),
        ({"status": "ended", "outcome": "waiting"}, True, "waiting_approval"),
        ({"status": "ended", "outcome": "waiting"}, False, "done"),
        ({"status": "ended", "outcome": "budget"}, False, "paused"),
        ({"status": "ended", "outcome": "timeout"}, False, "failed"),
        ({"status": "ended", "outcome": "lost"}, False, "failed"),
        ({"status": "ended", "outcome": "cancelled"}, False, "cancelled"),
    ]
    assert [
        (changes, asks, worker_state(msgspec.structs.replace(ATTEMPT, **changes), asks=asks, gone=False))
        for changes, asks, _ in rows
    ] == rows


def test_a_worker_without_a_process_has_failed_unless_its_candidate_is_submitted():
    """AL-3: no agent is shown as running without a process."""
    rows = [({}, "failed"), ({"phase": "candidate"}, "done"), ({"status": "ended", "outcome": "landed"}, "done")]
    assert [
        (changes, worker_state(msgspec.structs.replace(ATTEMPT, **changes), asks=False, gone=True))
        for changes, _ in rows
    ] == rows


def test_every_status_of_a_goal_has_a_word_for_its_supervisor():
    """AL-3b: the same words for the agent that pursues a goal."""
    rows = [
        ("planning", "pending"),
        ("active", "running"),
        ("paused", "paused"),
        ("completed", "done"),
        ("failed", "failed"),
        ("cancelled", "cancelled"),
    ]
    goals = {status: a_goal(state=parse_goal_state(status, "because")) for status, _ in rows}
    assert [(status, supervisor_state(goal, gone=False)) for status, goal in goals.items()] == rows
    gone = [(status, "failed" if word == "running" else word) for status, word in rows]
    assert [(status, supervisor_state(goal, gone=True)) for status, goal in goals.items()] == gone
