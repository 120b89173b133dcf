from typing import get_args

import msgspec
import pytest

from scaffold.core.states import (
    COMPOUND_MOVES,
    GOAL_MOVES,
    OWN_FAILURES,
    PHASES,
    PRIMITIVE_MOVES,
    RUN_MOVES,
    WORKER_PHASES,
    ActionState,
    Blocked,
    Failed,
    GoalState,
    Outcome,
    Paused,
    Pending,
    Phase,
    Running,
    action_state,
    goal_state,
    reason_of,
    status_of,
    waiting_for,
    waits_for,
)

ACTION_STATUSES = {str(state.__struct_config__.tag) for state in get_args(ActionState)}
GOAL_STATUSES = {str(state.__struct_config__.tag) for state in get_args(GoalState)}


@pytest.mark.parametrize("state", [Pending(), Running(), Failed("broken"), Blocked("dependency_failed:x")])
def test_an_action_state_can_be_rebuilt_from_its_stored_words(state):
    """SC-4."""
    assert action_state(status_of(state), reason_of(state)) == state


def test_a_goal_state_can_be_rebuilt_from_its_stored_words():
    """SC-9."""
    assert goal_state("paused", "by the user") == Paused("by the user")
    assert goal_state("active", None) == goal_state("active", "")


def test_a_reason_that_was_not_stored_is_empty():
    assert action_state("failed", None) == Failed("")


def test_what_waits_for_a_human_says_for_which_item_of_the_inbox():
    """BX-13."""
    assert waits_for(waiting_for("abc123")) == "abc123"
    assert waiting_for("abc123") == Blocked("waits_for:abc123")
    assert [waits_for(state) for state in (Blocked("dependency_failed:x"), Failed("waits_for:x"), Pending())] == [
        None
    ] * 3


def test_waiting_for_a_human_is_no_failure_of_the_attempt():
    """BX-13, SC-20."""
    assert "waiting" in get_args(Outcome)
    assert "waiting" not in OWN_FAILURES


def test_a_word_that_is_no_status_is_refused():
    with pytest.raises(msgspec.ValidationError):
        action_state("sleeping", None)
    with pytest.raises(msgspec.ValidationError):
        goal_state("landing", None)


def test_states_without_a_reason_have_none():
    assert reason_of(Pending()) is None


@pytest.mark.parametrize(
    ("moves", "statuses"),
    [
        (PRIMITIVE_MOVES, ACTION_STATUSES),
        (COMPOUND_MOVES, ACTION_STATUSES - {"verifying", "landing"}),
        (GOAL_MOVES, GOAL_STATUSES),
        (RUN_MOVES, GOAL_STATUSES),
    ],
)
def test_tables_of_moves_speak_of_every_status_and_of_no_other(moves, statuses):
    assert set(moves) == statuses
    assert set().union(*moves.values()) <= statuses


@pytest.mark.parametrize("moves", [PRIMITIVE_MOVES, COMPOUND_MOVES, GOAL_MOVES])
def test_nothing_moves_to_where_it_is_and_cancelled_is_final(moves):
    assert all(to not in sources for to, sources in moves.items())
    assert all("cancelled" not in sources for sources in moves.values())


def test_work_can_only_be_completed_by_landing():
    """SC-4: no way leads from an agent's word to completed."""
    assert PRIMITIVE_MOVES["completed"] == {"landing"}
    assert PRIMITIVE_MOVES["landing"] == {"verifying"}


def test_a_compound_runs_again_when_what_its_children_showed_is_refuted():
    """SC-5: completed is no end for a compound as long as its goal is open."""
    assert COMPOUND_MOVES["running"] == {"pending", "completed"}
    assert COMPOUND_MOVES["completed"] == {"running"}


def test_a_goal_goes_on_when_what_it_reached_has_fallen_and_a_run_that_is_completed_stays_so():
    """BX-1: a fact may be refuted until the run is over, and no longer."""
    assert "completed" in GOAL_MOVES["active"]
    assert "completed" not in set().union(*RUN_MOVES.values())
    assert {**RUN_MOVES, "active": GOAL_MOVES["active"]} == GOAL_MOVES


def test_phases_are_listed_whole_and_in_order_with_the_workers_first():
    assert get_args(Phase) == PHASES
    assert set(PHASES[: len(WORKER_PHASES)]) == WORKER_PHASES


def test_lost_attempts_are_nobodys_failure():
    """SC-20."""
    assert set(get_args(Outcome)) >= OWN_FAILURES
    assert not OWN_FAILURES & {"lost", "conflict", "budget", "cancelled", "landed", "recorded"}
