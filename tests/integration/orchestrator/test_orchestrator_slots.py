"""The slots of a run: shared among its goals in turn, and none while landing does not keep up."""

import pytest
from msgspec import structs

from builders import with_settings
from scaffold.core.proof.contract import Verification
from scaffold.core.proof.gates import Gate, GateResult
from scaffold.core.states import Paused
from scaffold.orchestrator.dispatch import queue_attempt, slots_by_goal
from scaffold.run.failures.attempt_end import AttemptEnd, end_attempt
from support.harness import act, goal


async def starts(harness, run, key):
    action = harness.action(run, key)
    return await queue_attempt(harness.context, run, action.goal_id, action.id) is not None


def ends(harness, run, key, outcome="lost"):
    end_attempt(harness.store, run, harness.attempts(run, key)[-1].id, AttemptEnd(outcome, "gone"))


async def test_no_goal_gets_a_second_slot_while_another_has_none(harness):
    """SC-15: the first goal asks first, and does not starve the second; slots that nobody else wants are its own."""
    big, small = goal("big", act("a"), act("b"), act("c")), goal("small", act("d"))
    run = await harness.own(big, small, agents=3)
    assert await starts(harness, run, "a")
    assert await starts(harness, run, "b"), "one is left for the other goal"
    assert not await starts(harness, run, "c")
    assert await starts(harness, run, "d")
    ends(harness, run, "a")
    assert await starts(harness, run, "c"), "the other goal has nothing more to do"


async def test_goals_get_a_single_slot_in_turn(harness):
    """SC-15: also an attempt that ended badly was a turn."""
    run = await harness.own(goal("one", act("a"), act("b")), goal("two", act("c"), act("d")), agents=1)
    assert await starts(harness, run, "a")
    ends(harness, run, "a")
    assert not await starts(harness, run, "a")
    assert await starts(harness, run, "c")
    ends(harness, run, "c")
    assert not await starts(harness, run, "d")
    assert await starts(harness, run, "b")


async def test_a_goal_that_is_reached_or_paused_keeps_no_slot_free(harness):
    """SC-15: what is ready there is not needed."""
    first, second, third = goal("first", act("a"), wants=["x"]), goal("second", act("b")), goal("third", act("c"))
    run = await harness.own(first, second, third, agents=1)
    reached, paused, other = harness.store.goals.for_run(run.id)
    assert slots_by_goal(harness.store, run) == {reached.id: 1}
    with harness.store.transaction():
        harness.store.facts.record(reached.id, "x", commit=run.base_sha, paths=(), evidence=())
    assert slots_by_goal(harness.store, run) == {paused.id: 1}
    assert slots_by_goal(harness.store, run, among=[other.id]) == {other.id: 1}
    harness.move(paused, Paused("a break"))
    assert slots_by_goal(harness.store, run) == {other.id: 1}


async def test_an_action_that_is_no_longer_ready_does_not_start(harness):
    """SC-4, BX-1: a fact went stale between the decision and the transaction that opens the attempt."""
    run = await harness.own(goal("g", act("a"), act("b", needs=["a_done"])))
    (the_goal,) = harness.store.goals.for_run(run.id)
    with harness.store.transaction():
        harness.store.facts.record(the_goal.id, "a_done", commit=run.base_sha, paths=(), evidence=())
        harness.store.facts.invalidate(the_goal.id, "a_done", "stale")
    assert not await starts(harness, run, "b")
    with harness.store.transaction():
        harness.store.facts.record(the_goal.id, "a_done", commit=run.base_sha, paths=(), evidence=())
    assert await starts(harness, run, "b")


@pytest.mark.parametrize(
    ("changes", "settings", "free"),
    [
        ({}, {}, 0),
        ({"proof_key": ""}, {}, 1),
        ({"gates": ()}, {}, 1),
        ({}, {"human_review": "always"}, 1),
        ({}, {"planner": True, "supervision": "agent"}, 1),
    ],
    ids=["lands as proven", "is proven again", "ran no gates", "waits for a human", "an agent asks"],
)
async def test_nothing_starts_in_the_moment_before_a_proven_candidate_lands(harness, changes, settings, free):
    """BX-5: it would begin without that work, and be proven twice. Without gates there is nothing to run twice."""
    run = await harness.own(goal("g", act("a"), act("b")), agents=1)
    await harness.work(run, "a", "echo x > a")
    (candidate,) = harness.store.attempts.waiting_to_land(run.id)
    gates = (GateResult(gate=Gate(kind="test", command="make check"), verdict="pass"),)
    proven = Verification(commit=candidate.head_sha, results=(), gates=gates, proof_key="k")
    with harness.store.transaction():
        harness.store.attempts.advance(
            candidate.id, fence=candidate.fence, phase="candidate", verification=structs.replace(proven, **changes)
        )
    (the_goal,) = harness.store.goals.for_run(run.id)
    changed = structs.replace(run, settings=with_settings(run.settings, **settings))
    assert slots_by_goal(harness.store, changed) == ({the_goal.id: 1} if free else {})
    moved = structs.replace(changed, base_sha="0" * 40)
    assert slots_by_goal(harness.store, moved) == {the_goal.id: 1}, "it has to be proven on another tip"


@pytest.mark.slow
async def test_nothing_starts_while_twice_as_many_candidates_as_agents_wait(harness):
    """AL-13, BX-6: each attempt that runs counts as a candidate to come; one that waits for a human does not."""
    run = await harness.own(goal("g", *(act(key) for key in "abcde")), agents=1)
    for key in "ab":
        await harness.work(run, key, f"echo x > {key}")
    assert sum(use.candidates for use in harness.store.attempts.slots(run.id).values()) == 2
    assert not await starts(harness, run, "c")
    first, second = harness.store.attempts.waiting_to_land(run.id)
    assert [harness.store.actions.get(each.action_id).key for each in (first, second)] == ["a", "b"], "oldest first"
    end_attempt(harness.store, run, first.id, AttemptEnd("conflict", "it does not fit"))
    assert await starts(harness, run, "c")
    with harness.store.transaction():
        attempt = harness.attempts(run, "c")[-1]
        harness.store.attempts.end(attempt.id, outcome="waiting", error="asks")
    assert await starts(harness, run, "d"), "only one candidate waits to land"
