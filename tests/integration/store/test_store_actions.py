"""Actions: stored whole, moved by their transition table, ready exactly when nothing blocks them."""

import pytest
from inline_snapshot import snapshot
from msgspec.structs import replace

from builders import a_goal, a_run, an_action, events_of, store_run
from scaffold.core.errors import IllegalTransition, StaleFence, StoreError
from scaffold.core.events import ActionStatusChanged
from scaffold.core.proof.contract import Check, Contract, OutputContains
from scaffold.core.states import (
    COMPOUND_TRANSITIONS,
    PRIMITIVE_TRANSITIONS,
    Blocked,
    Cancelled,
    Completed,
    Failed,
    Landing,
    Pending,
    Running,
    Skipped,
    Verifying,
    parse_action_state,
    reason_of,
)
from scaffold.store.database import Store
from scaffold.store.run.attempts import SLOT_DEMANDS
from scaffold.store.run.event_log import HAS_NOTICE
from scaffold.store.run.landings import OPEN_INTENTS
from scaffold.store.run.plan.actions import READY, OpenCompound
from scaffold.store.run.plan.facts import HOLDING_BY_CHECKSUM, UNCHECKED_STALE_OF_GOAL, UNCHECKED_STALE_OF_RUN
from scaffold.store.run.plan.goals import COUNT_UNFINISHED
from scaffold.store.run.proof_records import LANDED_SETTLING_TESTS
from support.fake_clock import FakeClock

GIVEN = {"goal_id": "run-1/shop", "run_id": "run-1", "free": 3, "ask_after": 6, "now": "2030", "limit": 3, "body": "{}"}
SHOP = "run-1/shop"


def _show(store: Store, *assertions: str) -> None:
    with store.transaction():
        for assertion in assertions:
            store.facts.record(SHOP, assertion, commit="c", paths=(), evidence=())


def _move(store: Store, key: str, *states: object) -> None:
    with store.transaction():
        for state in states:
            store.actions.move(f"run-1/{key}", state)


def _ready(store: Store, limit: int = 10) -> list[str]:
    return [action.key for action in store.actions.ready(SHOP, limit)]


def _family(**fields: object) -> list:
    """Return a compound `part` and its two children."""
    part = an_action("part", kind="compound", effects=("whole", "tested"), **fields)
    children = [an_action(f"part/{n}", parent_id=part.id, position=n) for n in (1, 2)]
    return [part, *children]


def test_an_action_reads_back_with_every_field(store: Store) -> None:
    """SC-4: key, goal, parent, description, preconditions, effects, kind, status, role, result and times."""
    part = an_action("part", kind="compound", state=Running())
    action = an_action(
        "api",
        parent_id=part.id,
        role="testing",
        method="story",
        preconditions=("b", "a"),
        effects=("d", "c"),
        files=("src/**", "tests/x.py"),
        contract=Contract(commands=(Check(command="make", expect=OutputContains("ok")),), must_exist=("a",)),
        state=Failed("three times"),
        unmet=2,
        position=4,
        result="I could not.",
    )
    store_run(store, part, action)
    assert store.actions.get(action.id) == action
    assert store.actions.by_key("run-1", "api") == action
    assert store.actions.get("nobody") is None
    assert store.actions.by_key("run-2", "api") is None


def test_actions_come_in_plan_order(store: Store) -> None:
    """SC-10: by run, by goal, by parent."""
    part = an_action("part", kind="compound", position=9)
    others = [an_action(f"part/{n}", parent_id=part.id, position=n) for n in (3, 1, 2)]
    store_run(store, part, *others)
    with store.transaction():
        store.goals.add(a_goal("web"))
        store.actions.add([an_action("web", goal=a_goal("web"), position=0)])
    assert [a.key for a in store.actions.for_run("run-1")] == ["web", "part/1", "part/2", "part/3", "part"]
    assert [a.key for a in store.actions.for_goal(SHOP)] == ["part/1", "part/2", "part/3", "part"]
    assert [a.key for a in store.actions.children(part.id)] == ["part/1", "part/2", "part/3"]
    assert store.actions.has_children(part.id)
    assert not store.actions.has_children("run-1/part/1")


def test_the_number_of_unmet_preconditions_is_computed_when_an_action_is_added(store: Store) -> None:
    """SC-4: the caller's value is ignored, facts count, and a repeated name counts once."""
    store_run(store)
    _show(store, "a", "gone")
    with store.transaction():
        store.facts.invalidate(SHOP, "gone", "refuted")
        store.actions.add([an_action("x", preconditions=("a", "b", "b", "gone"), unmet=17)])
    assert store.actions.get("run-1/x").unmet == 2


def test_a_parent_may_follow_its_child_in_the_list(store: Store) -> None:
    part, *children = _family(state=Running())
    store_run(store, *children, part)
    assert [child.unmet for child in store.actions.children(part.id)] == [0, 0]


def test_an_action_is_ready_once_its_last_precondition_holds(store: Store) -> None:
    """SC-2, SC-4, SC-10: ready exactly when pending and all preconditions hold; other goals' facts do not count."""
    store_run(store, an_action("x", preconditions=("a", "b")))
    assert _ready(store) == []
    _show(store, "a")
    with store.transaction():
        store.goals.add(a_goal("web"))
        store.facts.record("run-1/web", "b", commit="c", paths=(), evidence=())
    assert _ready(store) == []
    _show(store, "b")
    assert _ready(store) == ["x"]
    _move(store, "x", Running())
    assert _ready(store) == []


def test_ready_actions_come_in_plan_order_up_to_the_limit(store: Store) -> None:
    """SC-10: compounds and primitives alike."""
    store_run(
        store, an_action("c", position=2), an_action("a", position=0, kind="compound"), an_action("b", position=1)
    )
    assert _ready(store) == ["a", "b", "c"]
    assert _ready(store, 2) == ["a", "b"]
    assert _ready(store, 0) == []


LOOKUPS = [
    (READY, "SEARCH action USING INDEX action_ready (goal_id=?)"),
    (UNCHECKED_STALE_OF_GOAL, "SEARCH fact USING INDEX fact_stale (goal_id=?)"),
    (UNCHECKED_STALE_OF_RUN, "SEARCH fact USING INDEX fact_stale (goal_id=?)"),
    (SLOT_DEMANDS, "SEARCH action USING INDEX action_ready (goal_id=?)"),
    # Of the effects, only those of what is stale.
    (UNCHECKED_STALE_OF_RUN, "SEARCH effect USING COVERING INDEX effect_by_assertion (goal_id=? AND assertion=?)"),
    (COUNT_UNFINISHED, "SEARCH goal USING COVERING INDEX goal_by_status (run_id=? AND status=?)"),
    (OPEN_INTENTS, "SEARCH intent USING INDEX intent_open (run_id=?)"),
    (HAS_NOTICE, "SEARCH event USING INDEX event_notice (run_id=?)"),
    (LANDED_SETTLING_TESTS, "SEARCH attempt USING INDEX attempt_settling_tests (run_id=?)"),
    (
        HOLDING_BY_CHECKSUM.format(wanted="1, 2"),
        "SEARCH fact USING INDEX sqlite_autoindex_fact_1 (goal_id=? AND assertion=?)",
    ),
]


def test_what_each_decision_and_landing_asks_costs_the_same_in_plans_of_any_size(file_store: Store) -> None:
    """BX-23: each of them once read all facts, pending actions, effects, attempts or landings of a goal or a run."""
    driver = file_store._connection.driver
    details = {
        statement: [row["detail"] for row in driver.rows(f"EXPLAIN QUERY PLAN {statement}", GIVEN)]
        for statement, _ in LOOKUPS
    }
    assert [(statement, details[statement]) for statement, index in LOOKUPS if index not in details[statement]] == []
    # These are as long as what is free, and as what is stale, with the compounds above.
    small = {"SCAN first_ready", "SCAN provider"}
    every = [each for plan in details.values() for each in plan]
    assert not [each for each in every if "TEMP" in each or ("SCAN" in each and each not in small)]


def test_children_wait_until_their_parent_runs(store: Store) -> None:
    """SC-5: a compound's children may run while it is running, and not before or after."""
    part, first, second = _family()
    store_run(store, part, first, second)
    assert _ready(store) == ["part"]
    _move(store, "part", Running())
    assert _ready(store) == ["part/1", "part/2"]
    _move(store, "part", Failed("enough"))
    assert _ready(store) == []
    assert [child.unmet for child in store.actions.children(part.id)] == [1, 1]
    _move(store, "part", Pending())
    assert _ready(store) == ["part"]
    assert [child.unmet for child in store.actions.children(part.id)] == [1, 1]


def test_an_action_moves_by_its_table_and_records_an_event(store: Store, clock: FakeClock) -> None:
    """SC-4: the statuses and transitions of each kind."""
    tables = {"primitive": PRIMITIVE_TRANSITIONS, "compound": COMPOUND_TRANSITIONS}
    moves = [(kind, was, to) for kind in tables for was in PRIMITIVE_TRANSITIONS for to in PRIMITIVE_TRANSITIONS]
    before = {
        (kind, was, to): an_action(
            f"{kind}-{was}-{to}", kind=kind, state=parse_action_state(was, "before"), result="old words"
        )
        for kind, was, to in moves
    }
    store_run(store, *before.values())
    refused = set()
    for move, action in before.items():
        try:
            with store.transaction():
                store.actions.move(action.id, parse_action_state(move[2], "a reason"))
        except IllegalTransition:
            refused.add(move)
    assert refused == {(kind, was, to) for kind, was, to in moves if was not in tables[kind].get(to, ())}
    moved = {each: parse_action_state(each[2], "a reason") for each in moves if each not in refused}
    assert {move: store.actions.get(action.id) for move, action in before.items()} == {
        move: replace(action, state=moved[move], updated_at=clock.now()) if move in moved else action
        for move, action in before.items()
    }
    assert events_of(store) == [
        ActionStatusChanged(before[move].key, move[2], reason_of(state)) for move, state in moved.items()
    ]


def test_a_result_stays_until_another_one_replaces_it(store: Store) -> None:
    """SC-10, SC-11: the worker's own text, whole."""
    store_run(store, an_action("x"))
    with store.transaction():
        store.actions.move("run-1/x", Running(), result="first\nand more")
        store.actions.move("run-1/x", Pending())
    assert store.actions.get("run-1/x").result == "first\nand more"
    with store.transaction():
        store.actions.move("run-1/x", Running(), result="second")
    assert store.actions.get("run-1/x").result == "second"


def test_actions_are_counted_by_status(store: Store) -> None:
    """SC-10."""
    store_run(store, *(an_action(key) for key in "abcd"))
    _move(store, "a", Running())
    _move(store, "b", Cancelled())
    assert store.actions.tally(SHOP) == {"pending": 2, "running": 1, "cancelled": 1}
    assert store.actions.tally("nobody") == {}


def test_running_actions_are_primitives_with_a_worker(store: Store) -> None:
    states = [Landing(), Running(), Pending(), Verifying(), Completed(), Failed("no")]
    primitives = [an_action(f"k{n}", position=n, state=state) for n, state in enumerate(states)]
    store_run(store, an_action("part", kind="compound", state=Running()), *primitives)
    assert [action.key for action in store.actions.running(SHOP)] == ["k0", "k1", "k3"]


def test_an_open_compound_reports_the_progress_of_its_children(store: Store) -> None:
    """SC-5: the open ones, and the effects that do not hold yet."""
    part, first, second = _family()
    store_run(store, part, first, second)
    assert store.actions.open_compounds(SHOP) == ()
    _move(store, "part", Running())
    _move(store, "part/1", Running(), Verifying(), Landing())
    part = store.actions.get(part.id)
    assert store.actions.open_compounds(SHOP) == (OpenCompound(part, 2, 2, ("whole", "tested")),)
    _move(store, "part/1", Completed())
    _move(store, "part/2", Skipped("not needed"))
    _show(store, "whole")
    assert store.actions.open_compounds(SHOP) == (OpenCompound(part, 2, 0, ("tested",)),)
    childless = an_action("childless", kind="compound", state=Running(), position=1)
    with store.transaction():
        store.actions.add([childless])
    assert store.actions.open_compounds(SHOP)[1:] == (OpenCompound(childless, 0, 0, ()),)


def test_a_child_is_open_as_long_as_it_can_still_run(store: Store) -> None:
    open_children = {
        **dict.fromkeys((Pending(), Running(), Verifying(), Landing()), 1),
        **dict.fromkeys((Completed(), Failed("no"), Blocked("no"), Skipped("no"), Cancelled()), 0),
    }
    parts = [an_action(f"part{n}", kind="compound", position=n, state=Running()) for n in range(len(open_children))]
    children = [
        an_action(f"{part.key}/1", parent_id=part.id, state=state)
        for part, state in zip(parts, open_children, strict=True)
    ]
    store_run(store, *parts, *children)
    found = store.actions.open_compounds(SHOP)
    assert {child.state: each.open_children for child, each in zip(children, found, strict=True)} == open_children
    assert {each.children for each in found} == {1}


def test_the_providers_of_an_assertion_can_be_found(store: Store) -> None:
    store_run(
        store,
        an_action("b", effects=("x", "y"), position=1),
        an_action("a", effects=("x",), position=0),
        an_action("c", preconditions=("x",), position=2),
    )
    assert [action.key for action in store.actions.providers(SHOP, "x")] == ["a", "b"]
    assert store.actions.providers(SHOP, "z") == ()


def test_skipping_leaves_out_started_and_ended_actions(store: Store) -> None:
    """SC-10: skip all pending actions of a goal."""
    store_run(store, *(an_action(key, position=n) for n, key in enumerate("abcd")))
    _move(store, "a", Running())
    _move(store, "b", Blocked("why"))
    _move(store, "d", Cancelled())
    already = len(events_of(store))
    with store.transaction():
        store.actions.skip_pending(SHOP, "goal reached")
    states = [action.state for action in store.actions.for_goal(SHOP)]
    assert states == [Running(), Skipped("goal reached"), Skipped("goal reached"), Cancelled()]
    assert events_of(store)[already:] == [ActionStatusChanged(key, "skipped", "goal reached") for key in "bc"]


def test_blocked_actions_keep_their_reasons_until_they_are_unblocked(store: Store) -> None:
    store_run(store, *(an_action(key, position=n) for n, key in enumerate("abc")))
    with store.transaction():
        store.actions.block({"run-1/b": "dependency_failed:x", "run-1/a": "dependency_failed:y"})
    assert store.actions.get("run-1/b").state == Blocked("dependency_failed:x")
    assert _ready(store) == ["c"]
    with store.transaction():
        assert store.actions.unblock(SHOP) == ("run-1/a", "run-1/b")
    assert _ready(store) == ["a", "b", "c"]
    with store.transaction():
        assert store.actions.unblock(SHOP) == ()


def test_only_pending_actions_can_be_blocked(store: Store) -> None:
    store_run(store, an_action("a", state=Running()))
    with pytest.raises(IllegalTransition), store.transaction():
        store.actions.block({"run-1/a": "why"})
    assert store.actions.get("run-1/a").state == Running()


def test_a_key_is_unique_in_a_run(store: Store) -> None:
    store_run(store, an_action("a"))
    with pytest.raises(StoreError, match=r"action\.key|action_run_id_key_key"), store.transaction():
        store.actions.add([an_action("a", id="another-id")])
    with store.transaction():
        store.runs.add(a_run("run-2"))
        store.goals.add(goal := a_goal(run_id="run-2"))
        store.actions.add([an_action("a", goal=goal)])
    assert store.actions.by_key("run-2", "a").run_id == "run-2"


def test_actions_move_along_a_path_together_and_record_every_step(store: Store) -> None:
    first, second = an_action("a", effects=("x",)), an_action("b", position=1)
    store_run(store, first, second)
    with store.transaction():
        store.actions.move_each((first, second), Running(), Verifying(), Landing(), Completed())
    assert [action.state for action in store.actions.for_goal(SHOP)] == [Completed(), Completed()]
    steps = ["running", "verifying", "landing", "completed"]
    assert events_of(store) == [ActionStatusChanged(key, step, None) for key in ("a", "b") for step in steps]
    assert store.actions.tally(SHOP) == {"completed": 2}


def test_a_path_with_an_illegal_step_moves_nothing(store: Store) -> None:
    first, second = an_action("a"), an_action("b", position=1, state=Failed("broken"))
    store_run(store, first, second)
    with pytest.raises(IllegalTransition) as caught, store.transaction():
        store.actions.move_each((first, second), Running(), Verifying())
    assert caught.value.what == snapshot("action 'b' cannot go from failed to running")
    with pytest.raises(IllegalTransition, match="'a'"), store.transaction():
        store.actions.move_each((first,), Running(), Completed())
    assert store.actions.for_goal(SHOP) == (first, second)


def test_actions_move_together_only_if_none_has_changed_meanwhile(store: Store) -> None:
    first, second = an_action("a"), an_action("b", position=1)
    store_run(store, first, second)
    _move(store, "b", Running())
    with pytest.raises(StaleFence), store.transaction():
        store.actions.move_each((first, second), Running())
    assert store.actions.get(first.id) == first
    with store.transaction():
        store.actions.move_each(())


def test_a_counter_changed_in_a_transaction_is_visible_in_it_and_rolled_back_with_it(store: Store) -> None:
    store_run(store, an_action("a"))

    def move_and_fail() -> None:
        with store.transaction():
            store.actions.move("run-1/a", Running())
            assert store.actions.tally(SHOP) == {"running": 1}
            assert len(events_of(store)) == 1
            store.actions.move("run-1/a", Pending())
            raise InterruptedError

    with pytest.raises(InterruptedError):
        move_and_fail()
    assert store.actions.tally(SHOP) == {"pending": 1}
    assert events_of(store) == []
    _move(store, "a", Running())
    assert len(events_of(store)) == 1
