from typing import get_args

import msgspec
import pytest

from scaffold.core.states import (
    COMPOUND_TRANSITIONS,
    COUNTED_FAILURES,
    GOAL_TRANSITIONS,
    PHASES,
    PRIMITIVE_TRANSITIONS,
    RUN_TRANSITIONS,
    WORKER_PHASES,
    ActionState,
    AttemptOutcome,
    AttemptPhase,
    Blocked,
    Failed,
    GoalState,
    Paused,
    Pending,
    Running,
    RunState,
    Saved,
    awaited_inbox_id,
    blocked_on_inbox,
    parse_action_state,
    parse_goal_state,
    parse_run_state,
    reason_of,
    status_of,
)

ACTION_STATUSES = {str(state.__struct_config__.tag) for state in get_args(ActionState)}
GOAL_STATUSES = {str(state.__struct_config__.tag) for state in get_args(GoalState)}
RUN_STATUSES = {str(state.__struct_config__.tag) for state in get_args(RunState)}


def test_an_action_state_can_be_rebuilt_from_its_stored_form():
    """SC-4."""
    states = (Pending(), Running(), Failed("broken"), Blocked("dependency_failed:x"))
    assert [state for state in states if parse_action_state(status_of(state), reason_of(state)) != state] == []
    assert parse_action_state("failed", None) == Failed("")
    assert reason_of(Pending()) is None


def test_a_goal_state_can_be_rebuilt_from_its_stored_form():
    """SC-9."""
    assert parse_goal_state("paused", "by the user") == Paused("by the user")
    assert parse_goal_state("active", None) == parse_goal_state("active", "")


def test_a_state_that_waits_for_a_human_names_the_inbox_item():
    """BX-13."""
    assert awaited_inbox_id(blocked_on_inbox("abc123")) == "abc123"
    assert blocked_on_inbox("abc123") == Blocked("waits_for:abc123")
    assert [
        awaited_inbox_id(state) for state in (Blocked("dependency_failed:x"), Failed("waits_for:x"), Pending())
    ] == [None] * 3


def test_waiting_for_a_human_is_no_failure_of_the_attempt():
    """BX-13, SC-20."""
    assert "waiting" in get_args(AttemptOutcome)
    assert "waiting" not in COUNTED_FAILURES


def test_an_unknown_status_is_refused():
    with pytest.raises(msgspec.ValidationError):
        parse_action_state("sleeping", None)
    with pytest.raises(msgspec.ValidationError):
        parse_goal_state("landing", None)


def test_transition_tables_cover_every_status_and_no_other():
    tables = (
        (PRIMITIVE_TRANSITIONS, ACTION_STATUSES),
        (COMPOUND_TRANSITIONS, ACTION_STATUSES - {"verifying", "landing"}),
        (GOAL_TRANSITIONS, GOAL_STATUSES),
        (RUN_TRANSITIONS, RUN_STATUSES),
    )
    for moves, statuses in tables:
        assert set(moves) == statuses
        assert set().union(*moves.values()) <= statuses


def test_no_status_moves_to_itself_and_cancelled_is_final():
    tables = (PRIMITIVE_TRANSITIONS, COMPOUND_TRANSITIONS, GOAL_TRANSITIONS)
    for moves in tables:
        assert all(to not in sources for to, sources in moves.items())
        assert all("cancelled" not in sources for sources in moves.values())


def test_work_can_only_be_completed_by_landing():
    """SC-4: nothing an agent says leads to completed."""
    assert PRIMITIVE_TRANSITIONS["completed"] == {"landing"}
    assert PRIMITIVE_TRANSITIONS["landing"] == {"verifying"}


def test_a_compound_runs_again_when_an_effect_of_its_children_is_refuted():
    """SC-5: completed is not final for a compound while its goal is open."""
    assert COMPOUND_TRANSITIONS["running"] == {"pending", "completed"}
    assert COMPOUND_TRANSITIONS["completed"] == {"running"}


def test_a_completed_goal_reopens_when_a_fact_falls_and_a_completed_run_only_by_its_user():
    """BX-1: a fact may be refuted until the run is over, and not afterwards."""
    assert "completed" in GOAL_TRANSITIONS["active"]
    assert {to for to, sources in RUN_TRANSITIONS.items() if "completed" in sources} == {"paused"}


def test_a_saved_run_is_started_or_cancelled_and_nothing_else():
    """SC-19: it neither fails nor pauses by itself, because nothing of it runs."""
    assert {to for to, sources in RUN_TRANSITIONS.items() if "saved" in sources} == {"active", "cancelled"}
    assert parse_run_state("saved", None) == Saved()
    with pytest.raises(msgspec.ValidationError):
        parse_goal_state("saved", None)


def test_all_phases_are_listed_in_order_with_the_workers_first():
    assert get_args(AttemptPhase) == PHASES
    assert set(PHASES[: len(WORKER_PHASES)]) == WORKER_PHASES


def test_a_lost_attempt_does_not_count_as_a_failure():
    """SC-20."""
    assert set(get_args(AttemptOutcome)) >= COUNTED_FAILURES
    assert not COUNTED_FAILURES & {"lost", "conflict", "budget", "cancelled", "landed", "recorded"}
