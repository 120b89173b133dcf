"""Learnings in both databases: found by their words, with the evidence of the attempts that had them."""

import msgspec

from builders import HEAD, an_action, an_attempt, store_run
from scaffold.core.knowledge import LEARNINGS
from scaffold.core.landing.branch_move import BranchMove
from scaffold.core.learning import Learning, Triple
from scaffold.memory.hybrid import HybridSearch
from scaffold.store.database import Store
from scaffold.store.user_store import UserStore
from support.fake_clock import FakeClock


def a_learning(name: str = "a", condition: str = "tests time out on CI", **fields) -> Learning:
    now = FakeClock().now()
    triple = Triple(condition, fields.pop("advice", "look for localhost"), fields.pop("result", ""))
    return Learning(id=name, triple=triple, created_at=now, changed_at=now, **fields)


def put(store: Store | UserStore, *learnings: Learning) -> None:
    with store.transaction():
        for each in learnings:
            store.learnings.put(each)


def found(store: Store | UserStore, *words: str) -> list[str]:
    return [hit.chunk.id for hit in HybridSearch(store.knowledge).by_words(LEARNINGS, " ".join(words))]


def test_a_learning_is_stored_changed_and_forgotten(store: Store) -> None:
    """AL-16."""
    first = a_learning(
        result="they pass",
        scope="module",
        module="src",
        concepts=("ci", "tests"),
        outcome="tests_pass",
        commit=HEAD,
        log="logs/x",
        fingerprint="f1",
        source="agent",
    )
    put(store, first)
    assert store.learnings.get("a") == first
    changed = msgspec.structs.replace(first, triple=Triple("builds break", "use make"), concepts=("build",))
    put(store, changed)
    assert store.learnings.all() == (changed,)
    assert (found(store, "localhost"), found(store, "make")) == ([], ["a"])
    assert store.learnings.concepts() == {"build": ("a",)}
    assert store.learnings.with_concept("build") == (changed,)
    assert store.learnings.for_failure("f1") == (changed,)
    assert store.learnings.for_failure("") == ()
    assert store.learnings.same(changed.triple) == changed
    with store.transaction():
        store.knowledge.forget(["a"])
    assert (store.learnings.all(), store.learnings.concepts(), found(store, "make")) == ((), {}, [])


def test_learnings_are_found_by_variants_of_their_words(store: Store) -> None:
    """AL-16: the more fitting first; a word cannot be an operator of the search."""
    put(
        store,
        a_learning("a", "tests fail"),
        a_learning("b", "testing fails when caching"),
        a_learning("c", "naïve größe"),
    )
    assert found(store, "cache", "test")[0] == "b"
    assert {*found(store, "failing")} == {"a", "b"}
    assert found(store, "größe") == ["c"]
    assert found(store, "nothing") == []
    for hostile in ('"', "a OR", "NEAR(a b)", "*", "words:nothing", "'; DROP TABLE learning; --", ""):
        assert found(store, hostile) == []
    assert found(store, "AND", "or", "NOT", "tests") != []
    assert len(HybridSearch(store.knowledge).by_words(LEARNINGS, "tests testing", most=1)) == 1


def test_the_users_database_has_learnings_of_its_own(user: UserStore, clock: FakeClock) -> None:
    """AL-16: what the user prefers is global."""
    preference = a_learning("p", "always", scope="global", preference=True)
    put(user, preference, a_learning("q", scope="global"))
    assert user.learnings.preferences() == (preference,)
    assert user.learnings.by_prefix("q") == (user.learnings.get("q"),)
    clock.advance(60)
    with user.transaction():
        user.learnings.trigger(["p", "of another database"])
        user.learnings.supersede("q", by="p")
    triggered = user.learnings.get("p")
    assert (triggered.triggers, triggered.triggered_at) == (1, clock.now())
    assert user.learnings.get("q").superseded_by == "p"
    assert user.learnings.same(a_learning().triple) is None


def test_what_a_learning_did_is_computed_from_the_end_of_the_attempt(file_store: Store) -> None:
    """BX-16: a crash, the budget or a conflict says nothing about it."""
    helped = {
        ("landed", "change"): True,
        ("recorded", "review"): True,
        **{(outcome, "change"): False for outcome in ("contract_failed", "timeout")},
        **{(outcome, "change"): None for outcome in ("conflict", "lost", "budget", None)},
    }
    actions = [an_action(f"x{number}") for number in range(len(helped))]
    store_run(file_store, *actions)
    found = {}
    for action, (outcome, kind) in zip(actions, helped, strict=True):
        attempt, given, withheld = f"{action.id}#1", f"given {action.key}", f"withheld {action.key}"
        with file_store.transaction():
            file_store.attempts.open(an_attempt(action, kind=kind))
            file_store.learning_uses.add(attempt, "start", given=[given], withheld=[withheld])
            if outcome is not None:
                file_store.attempts.end(attempt, outcome=outcome)
        uses = file_store.learning_uses.for_learnings([given, withheld, "c"])
        assert [(each.learning, each.given) for each in uses] == [(given, True), (withheld, False)]
        (found[outcome, kind],) = {each.helped for each in uses}
        assert file_store.learning_uses.for_attempt(attempt) == {given, withheld}
    assert found == helped


def test_work_that_was_undone_did_not_help(store: Store, clock: FakeClock) -> None:
    """BX-16: and a decision about a learning is made once in an attempt; one that goes on takes it along."""
    action = an_action("x")
    store_run(store, action)
    with store.transaction():
        store.attempts.open(an_attempt(action))
        store.learning_uses.add("run-1/x#1", "start", given=["a"], withheld=[])
        store.learning_uses.add("run-1/x#1", "failure", given=[], withheld=["a"])
        store.attempts.end("run-1/x#1", outcome="landed", head_sha=HEAD)
        store.attempts.open(an_attempt(action, 2))
        store.learning_uses.carry("run-1/x#1", "run-1/x#2")
    first, second = store.learning_uses.for_learnings(["a"])
    assert (first.given, first.moment, first.helped) == (True, "start", True)
    assert (second.given, second.helped) == (True, None)
    with store.transaction():
        move = BranchMove(
            id="m", run_id="run-1", purpose="revert", branch="b", head=HEAD, old=HEAD, new=HEAD, created_at=clock.now()
        )
        store.branch_moves.add(move)
        store.branch_moves.settle("m", done=True)
    assert store.learning_uses.for_learnings(["a"])[0].helped is False


def test_the_steps_of_a_compound_are_one_piece_of_work(store: Store) -> None:
    """BX-16: what was decided for the first of them stays, and only the one that lands counts."""
    steps = [an_action(key) for key in ("x", "y", "z")]
    store_run(store, *steps)
    with store.transaction():
        for step, given in zip(steps[:2], ("a", "b"), strict=True):
            other = {"a", "b"} - {given}
            store.attempts.open(an_attempt(step, kind="step", workspace="story"))
            store.learning_uses.add(f"{step.id}#1", "start", given=[given], withheld=other)
            store.attempts.end(f"{step.id}#1", outcome="recorded")
        store.attempts.open(an_attempt(steps[2], workspace="story"))
        store.learning_uses.add("run-1/z#1", "start", given=["a"], withheld=["b"])
    assert store.learning_uses.decided_in("story") == {"a": True, "b": False}
    assert store.learning_uses.decided_in("") == {}
    assert [each.given for each in store.learning_uses.for_learnings(["a", "b"])] == [True, False]
