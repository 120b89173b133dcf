"""Facts: added with evidence, withdrawn when stale or refuted, counted only while they hold."""

import pytest

from builders import BASE, HEAD, a_goal, a_run, an_action, events_of, some_evidence, store_run
from scaffold.core.events import FactStateChanged
from scaffold.core.model import Fact
from scaffold.core.proof.contract import Doubt
from scaffold.core.states import Completed, Pending
from scaffold.store.database import Store

SHOP = "run-1/shop"
DOUBT = Doubt("no_contract", "there is no contract")


@pytest.fixture
def store(store: Store) -> Store:
    store_run(store, an_action("x", preconditions=("a", "b")), an_action("y", preconditions=("a",), position=1))
    return store


def _show(store: Store, assertion: str = "a", commit: str = HEAD) -> None:
    with store.transaction():
        store.facts.record(
            SHOP, assertion, commit=commit, doubts=(DOUBT,), paths=["shop/store.py"], evidence=[some_evidence(commit)]
        )


def _withdraw(store: Store, state: str, assertion: str = "a") -> None:
    with store.transaction():
        store.facts.invalidate(SHOP, assertion, state)


def _unmet(store: Store) -> list[int]:
    return [action.unmet for action in store.actions.for_goal(SHOP)]


def _fact(commit: str = HEAD, state: str = "holds") -> Fact:
    return Fact(
        goal_id=SHOP,
        assertion="a",
        state=state,
        commit=commit,
        paths=("shop/store.py",),
        evidence=(some_evidence(commit),),
        doubts=(DOUBT,),
    )


def test_a_fact_reads_back_with_its_evidence_and_lowers_the_unmet_count_of_its_consumers(store: Store) -> None:
    assert _unmet(store) == [2, 1]
    _show(store)
    assert store.facts.for_goal(SHOP) == (_fact(),)
    assert events_of(store) == [FactStateChanged("shop", "a", "holds", HEAD)]
    assert _unmet(store) == [1, 0]


def test_newer_evidence_replaces_older_and_counts_once(store: Store) -> None:
    """So does an assertion that is given twice."""
    _show(store, commit=BASE)
    with store.transaction():
        store.facts.record_all(
            SHOP, ["a", "a"], commit=HEAD, doubts=(DOUBT,), paths=["shop/store.py"], evidence=[some_evidence(HEAD)]
        )
    assert store.facts.for_goal(SHOP) == (_fact(HEAD),)
    assert _unmet(store) == [1, 0]
    assert [event.commit for event in events_of(store)] == [BASE, HEAD]


def test_a_withdrawn_fact_counts_as_unmet_and_may_be_shown_again(store: Store) -> None:
    """A stale one may turn out refuted; withdrawing it again, or what was never shown, changes nothing."""
    for state in ("holds", "stale", "refuted", "holds", "refuted"):
        if state == "holds":
            _show(store)
        else:
            _withdraw(store, state)
            events = events_of(store)
            _withdraw(store, state)
            _withdraw(store, state, assertion="never shown")
            assert events_of(store) == events
        holds = state == "holds"
        assert store.facts.for_goal(SHOP) == (_fact(state=state),)
        assert store.facts.holding(SHOP) == (frozenset({"a"}) if holds else frozenset())
        assert _unmet(store) == ([1, 0] if holds else [2, 1])
        assert events_of(store)[-1] == FactStateChanged("shop", "a", state, HEAD)


def test_holding_leaves_out_what_does_not_hold(store: Store) -> None:
    with store.transaction():
        store.goals.add(a_goal("web"))
        store.runs.add(a_run("run-2"))
        store.goals.add(other := a_goal(run_id="run-2"))
        for goal_id in ("run-1/web", other.id):
            store.facts.record(goal_id, "a", commit=HEAD, paths=(), evidence=())
    _show(store, "b")
    _show(store, "c")
    _withdraw(store, "stale", "c")
    assert store.facts.holding(SHOP) == {"b"}
    assert store.facts.lacking(SHOP, ("c", "b", "a")) == ("c", "a")
    assert [fact.assertion for fact in store.facts.for_goal(SHOP)] == ["b", "c"]


def test_facts_are_found_by_the_paths_they_depend_on(store: Store) -> None:
    """BX-1: those that hold, in every goal; a part of a name is another name."""
    _show(store, "a")
    _show(store, "b")
    _withdraw(store, "stale", "b")
    assert [fact.assertion for fact in store.facts.depending_on("run-1", {"shop/store.py", "else"})] == ["a"]
    assert store.facts.depending_on("run-1", {"store.py", "shop"}) == ()
    assert store.facts.depending_on("run-2", {"shop/store.py"}) == ()
    assert store.facts.depending_on("run-1", ()) == ()


def test_a_fact_is_found_by_the_paths_of_its_latest_evidence_only(store: Store) -> None:
    """BX-1: however many there are, and however long they are."""
    before, after = [f"old/{number}" for number in range(1_200)], ["n" * 4_000, "new"]
    for paths in (before, after):
        with store.transaction():
            store.facts.record_all(SHOP, ["a", "b"], commit=HEAD, paths=paths, evidence=())
    assert store.facts.depending_on("run-1", before) == ()
    assert [fact.assertion for fact in store.facts.depending_on("run-1", [*before, after[0]])] == ["a", "b"]


def test_the_facts_of_some_assertions_come_by_name_whatever_their_state(store: Store) -> None:
    for assertion in ("b", "a", "c"):
        _show(store, assertion)
    _withdraw(store, "stale", "a")
    found = store.facts.for_assertions(SHOP, ("b", "a", "b", "never shown"))
    assert [(fact.assertion, fact.state) for fact in found] == [("a", "stale"), ("b", "holds")]


def test_a_stale_fact_is_unsettled_until_its_provider_is_at_work_again(store: Store) -> None:
    """BX-1: a provider that is already running is not waited for; a refuted fact is settled."""
    provider = an_action("z", effects=("a", "b"), position=2, state=Completed())
    with store.transaction():
        store.actions.add([provider])
    _show(store)
    _show(store, "b")
    assert store.facts.unchecked_stale(SHOP) == ()
    _withdraw(store, "stale")
    _withdraw(store, "refuted", "b")
    assert store.facts.unchecked_stale(SHOP) == (_fact(state="stale"),)
    with store.transaction():
        store.actions.move(provider.id, Pending())
    assert store.facts.unchecked_stale(SHOP) == ()
