"""Storing proposals: all or nothing, checked against the current run, and read back unchanged."""

import pytest
from msgspec.structs import replace

from builders import HEAD, THEN, a_goal, a_run, an_action, events_of
from scaffold.core.events import AssertionProposed, PlanExtended
from scaffold.core.plan import ActionSpec, GoalSpec
from scaffold.core.states import Active, Blocked, Completed, Failed, Paused, Pending, Planning, Running, Skipped
from scaffold.orchestrator.planning.apply_plan import apply_changes, read_draft, stored_plan
from scaffold.plan.edit.draft import (
    WAITING,
    ChangeRejected,
    CreateActions,
    CreateGoal,
    ProposeAssertions,
    RetryApproach,
    UpdateAction,
)
from scaffold.store.database import Store
from support.fake_clock import FakeClock

SHOP = GoalSpec(name="shop", description="Have a shop.", goal_state=("open",))
BUILD = ActionSpec(key="build", description="Build it.", kind="compound", effects=("open",))
WALLS = ActionSpec(key="walls", description="Walls.", parent="build", effects=("walls",), files=("walls/*",))
DOOR = ActionSpec(key="door", description="Door.", parent="build", preconditions=("walls",), effects=("open",))
LAYOUT = (CreateGoal(SHOP), CreateActions("shop", (BUILD,)), CreateActions("shop", (DOOR, WALLS)))


@pytest.fixture
def store(tmp_path):
    with_clock = Store.open(tmp_path / "state.db", clock=FakeClock())
    yield with_clock
    with_clock.close()


@pytest.fixture
def run(store):
    with store.transaction():
        store.runs.add(a_run())
    return store.runs.get("run-1")


def write(store, run, *changes):
    with store.transaction():
        return apply_changes(store, run, changes, now=THEN)


def named(store, key):
    return store.actions.by_key("run-1", key)


def show(store, assertion):
    goal = store.goals.by_name("run-1", "shop")
    store.facts.record(goal.id, assertion, commit=HEAD, paths=(), evidence=())


def test_a_proposal_is_stored_unchanged_with_its_events(store, run):
    """SC-4, SC-10, SC-12."""
    draft = read_draft(store, run)
    for change in LAYOUT:
        draft.apply(change)
    assert write(store, run, *LAYOUT) == LAYOUT
    assert stored_plan(store, run) == draft.plan
    assert [(each.key, each.position, each.method) for each in store.actions.for_run(run.id)] == [
        ("build", 0, "htn"),
        ("door", 1, "single"),
        ("walls", 2, "single"),
    ]
    assert named(store, "door").parent_id == named(store, "build").id
    assert events_of(store) == [
        PlanExtended("shop", None, ()),
        PlanExtended("shop", None, ("build",)),
        PlanExtended("shop", "build", ("door", "walls")),
    ]


def test_a_stored_proposal_is_not_stored_again(store, run):
    """SC-12: a turn repeated after a crash adds nothing twice."""
    write(store, run, *LAYOUT)
    before = events_of(store)
    assert write(store, run, *LAYOUT) == ()
    assert events_of(store) == before
    assert len(store.actions.for_run(run.id)) == 3


def test_goals_wait_for_their_run_unless_it_is_active_or_they_are_persistent(store, run):
    """SC-9: a persistent goal is active at once."""
    write(store, run, CreateGoal(SHOP), CreateGoal(replace(SHOP, name="watch", persistent=True)))
    assert [goal.state for goal in store.goals.for_run(run.id)] == [Planning(), Active()]
    with store.transaction():
        store.runs.move(run.id, Active())
    write(store, run, CreateGoal(replace(SHOP, name="later")))
    assert store.goals.by_name(run.id, "later").state == Active()


def test_a_change_that_no_longer_applies_refuses_all_of_them(store, run):
    """SC-12: the parent completed during the turn."""
    write(store, run, *LAYOUT)
    roof = CreateActions("shop", (replace(WALLS, key="roof"),))
    assert read_draft(store, run).apply(roof)
    with store.transaction():
        store.actions.move(named(store, "build").id, Running())
        store.actions.move(named(store, "build").id, Completed())
    before = events_of(store)
    with pytest.raises(ChangeRejected, match="`build` is completed"):
        write(store, run, CreateGoal(replace(SHOP, name="annex")), roof)
    assert events_of(store) == before
    assert store.goals.by_name(run.id, "annex") is None


def test_a_failed_action_gets_one_more_attempt_with_another_approach(store, run):
    """SC-20."""
    write(store, run, *LAYOUT)
    with store.transaction():
        store.actions.move(named(store, "build").id, Running())
        store.actions.move(named(store, "walls").id, Failed("it fell"))
        store.actions.move(named(store, "door").id, Blocked(f"dependency_failed:{named(store, 'walls').id}"))
    write(store, run, UpdateAction("walls", "pending", "use bricks"))
    walls = named(store, "walls")
    assert (walls.state, walls.guidance, walls.extra_attempts) == (Pending(), "use bricks", 1)
    assert named(store, "door").state == Pending()
    assert read_draft(store, run).history.approaches == {"walls": RetryApproach("use bricks", spent=True)}
    with store.transaction():
        store.actions.move(walls.id, Failed("it fell again"))
    with pytest.raises(ChangeRejected, match="`walls`"):
        write(store, run, UpdateAction("walls", "pending", "use stone"))


def test_a_skipped_action_blocks_its_dependents_until_another_provides(store, run):
    """SC-10, SC-12."""
    write(store, run, *LAYOUT)
    with store.transaction():
        store.actions.move(named(store, "build").id, Running())
        store.actions.move(named(store, "walls").id, Failed("it fell"))
    write(store, run, UpdateAction("walls", "skipped", "a tent has none"))
    assert named(store, "walls").state == Skipped("a tent has none")
    assert named(store, "door").state == Blocked(f"dependency_failed:{named(store, 'walls').id}")
    write(store, run, CreateActions("shop", (replace(WALLS, key="canvas"),)))
    assert named(store, "door").state == Pending()


def test_a_dropped_compound_drops_its_remaining_children(store, run):
    """SC-12."""
    write(store, run, *LAYOUT)
    write(store, run, UpdateAction("build", "skipped", "bought"))
    assert {action.state for action in store.actions.for_run(run.id)} == {Skipped("bought")}
    write(store, run, CreateActions("shop", (replace(BUILD, key="rent"),)))
    write(store, run, UpdateAction("rent", "skipped", "too dear"))
    assert [action.state for action in store.actions.for_run(run.id)] == [Skipped("bought")] * 3 + [Skipped("too dear")]


def test_a_proposed_assertion_becomes_an_event_and_never_a_fact(store, run):
    """SC-3, SC-12: evidence decides."""
    write(store, run, *LAYOUT)
    write(store, run, ProposeAssertions("shop", {"open": True, "walls": False}, "I saw it", "nearly there"))
    goal = store.goals.by_name(run.id, "shop")
    assert events_of(store)[-2:] == [
        AssertionProposed("shop", "open", True, "I saw it"),
        AssertionProposed("shop", "walls", False, "I saw it"),
    ]
    assert goal.summary == "nearly there"
    assert store.facts.for_goal(goal.id) == ()
    write(store, run, ProposeAssertions("shop", {}, summary="nearly there"))
    assert len(events_of(store)) == 5


def test_the_state_of_the_run_is_read_with_the_plan(store, run):
    """SC-8, SC-10."""
    write(store, run, *LAYOUT, CreateGoal(replace(SHOP, name="old")))
    with store.transaction():
        show(store, "walls")
        store.actions.move(named(store, "door").id, Blocked("waits_for:item-1"))
        store.goals.move(store.goals.by_name(run.id, "old").id, Paused("x"))
        store.goals.move(store.goals.by_name(run.id, "old").id, Failed("no way"))
    draft = read_draft(store, run)
    assert draft.progress.status("door") == WAITING
    assert draft.progress.held("shop") == {"walls"}
    assert draft.history.ended == {"old": "failed"}


def test_actions_of_any_origin_are_read_back_as_a_plan(store, run):
    """SC-10."""
    goal = a_goal()
    with store.transaction():
        store.goals.add(goal)
        store.actions.add([an_action("a", goal=goal, effects=("x",)), an_action("b", goal=goal, position=1)])
    (spec,) = stored_plan(store, run).goals
    assert (spec.name, spec.goal_state) == ("shop", ("done",))
    assert [(action.key, action.effects) for action in spec.actions] == [("a", ("x",)), ("b", ())]
