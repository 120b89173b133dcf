"""Proposals in any order: accepted ones keep the plan consistent, are accepted once, and are stored unchanged."""

import itertools
import tempfile
from contextlib import closing, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import THEN, a_run
from scaffold.core.plan import ActionSpec, GoalSpec, Plan
from scaffold.core.states import Failed, Running, status_of
from scaffold.orchestrator.planning.apply_plan import apply_changes, read_draft, stored_plan
from scaffold.plan.edit.draft import (
    ChangeRejected,
    CreateActions,
    CreateGoal,
    PlanDraft,
    ProposeAssertions,
    UpdateAction,
)
from scaffold.plan.progress import PlanProgress
from scaffold.store.database import Store
from support.fake_clock import FakeClock
from support.property_examples import up_to

NUMBERS = itertools.count()
goals = st.sampled_from(["shop", "lab", "", "nowhere"])
keys = st.sampled_from(["a", "b", "c", "d", "e", "-f"])
names = st.lists(st.sampled_from(["x", "y", "z", " "]), max_size=3).map(tuple)
sound_names = st.lists(st.sampled_from(["x", "y", "z"]), min_size=1, max_size=3).map(tuple)
specs = st.builds(
    ActionSpec,
    key=keys,
    description=st.sampled_from(["", "do it"]),
    kind=st.sampled_from(["primitive", "compound", "compound"]),
    parent=st.none() | keys,
    preconditions=sound_names | names,
    effects=sound_names | names,
)
changes = st.one_of(
    st.builds(CreateGoal, st.builds(GoalSpec, name=goals, description=st.just("d"), goal_state=sound_names | names)),
    st.builds(CreateActions, goals, st.lists(specs, max_size=4).map(tuple)),
    st.builds(CreateActions, st.sampled_from(["shop", "lab"]), st.tuples(specs)),
    st.builds(UpdateAction, keys, st.sampled_from(["pending", "skipped"]), st.sampled_from(["", "n", "m"])),
    st.builds(
        ProposeAssertions, goals, st.dictionaries(st.sampled_from(["x", "y"]), st.booleans()), st.just(""), st.none()
    ),
)
LAID = [CreateGoal(GoalSpec(name=name, description="d", goal_state=("x",))) for name in ("shop", "lab")]
statuses = st.dictionaries(keys, st.sampled_from(["pending", "running", "failed", "completed", "blocked"]))


@pytest.fixture(scope="module")
def store():
    with tempfile.TemporaryDirectory() as folder, closing(Store.open(Path(folder) / "s", clock=FakeClock())) as store:
        yield store


def taken(on: PlanDraft, change) -> bool:
    with suppress(ChangeRejected):
        return on.apply(change)
    return False


def expect_whole(on: PlanDraft) -> None:
    """Check that keys and names are unique, and every parent is a compound of the same goal without a cycle."""
    names = [goal.name for goal in on.plan.goals]
    keys = [action.key for action in on.plan.actions]
    assert len(set(names)) == len(names)
    assert len(set(keys)) == len(keys)
    for goal in on.plan.goals:
        home = {action.key: action for action in goal.actions}
        for action in goal.actions:
            above, steps = action, 0
            while above.parent is not None:
                above, steps = home[above.parent], steps + 1
                assert above.kind == "compound"
                assert steps <= len(home)


@settings(max_examples=up_to(120))
@given(st.lists(changes, max_size=12), statuses)
def test_a_draft_stays_consistent_and_makes_no_fact_whatever_is_proposed(proposed, given_statuses):
    """SC-4, SC-12: a refused proposal leaves no trace; an accepted one counts once."""
    facts = {"shop": ("y",)}
    on = PlanDraft(Plan(goals=()), PlanProgress(statuses=given_statuses, facts=facts))
    for change in (*LAID, *proposed):
        before = (on.plan, on.progress, on.history, on.changes)
        if taken(on, change):
            assert on.changes[:-1] == before[3]
            after = (on.plan, on.progress, on.history, on.changes)
            assert not taken(on, change)
            assert (on.plan, on.progress, on.history, on.changes) == after
        else:
            assert (on.plan, on.progress, on.history, on.changes) == before
        expect_whole(on)
        assert on.progress.facts == facts
        on.findings()


@settings(max_examples=up_to(60))
@given(
    st.lists(changes, max_size=8), st.lists(st.tuples(keys, st.booleans()), max_size=3), st.lists(changes, max_size=6)
)
def test_a_stored_draft_is_read_back_unchanged(store, laid, begun, proposed):
    """SC-10, SC-12: stored twice it is there once, and no fact results from it."""
    run = a_run(f"run-{next(NUMBERS)}")
    with store.transaction():
        store.runs.add(run)
    expect_written(store, run, [*LAID, *laid])
    with store.transaction():
        for key, fails in begun:
            action = store.actions.by_key(run.id, key)
            if action is not None and status_of(action.state) == "pending":
                store.actions.move(action.id, Running())
                if fails:
                    store.actions.move(action.id, Failed("it broke"))
    expect_written(store, run, proposed)


def expect_written(store: Store, run, proposed) -> None:
    """Check that valid proposals are stored unchanged; a second time nothing happens."""
    on = read_draft(store, run)
    for change in proposed:
        taken(on, change)
    with store.transaction():
        assert apply_changes(store, run, on.changes, now=THEN) == on.changes
    now = read_draft(store, run)
    assert now.plan == on.plan == stored_plan(store, run)
    assert dict(now.history.approaches) == dict(on.history.approaches)
    freed = {"pending", "blocked"}
    for action in now.plan.actions:
        was, became = on.progress.status(action.key), now.progress.status(action.key)
        assert was == became or {was, became} == freed
    last = store.events.last_seq(run.id)
    with store.transaction():
        claims = [change for change in on.changes if not isinstance(change, ProposeAssertions)]
        assert apply_changes(store, run, claims, now=THEN) == ()
    assert store.events.last_seq(run.id) == last
    for goal in store.goals.for_run(run.id):
        assert store.facts.for_goal(goal.id) == ()
