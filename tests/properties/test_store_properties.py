"""The stored count of unmet preconditions, compared with its plain definition after random histories."""

import itertools
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from builders import a_goal, a_run, an_action
from scaffold.core.errors import IllegalTransition
from scaffold.core.model import Action, Goal
from scaffold.core.states import PRIMITIVE_TRANSITIONS, Pending, parse_action_state, status_of
from scaffold.store.database import Store
from support.fake_clock import FakeClock
from support.postgres import new_location
from support.property_examples import up_to

ASSERTIONS = ("a", "b", "c")
NUMBERS = itertools.count()

names = st.lists(st.sampled_from(ASSERTIONS), max_size=4)
steps = st.one_of(
    st.tuples(st.just("add"), st.none() | st.integers(0, 7), st.sampled_from(("compound", "primitive")), names),
    st.tuples(st.just("show"), st.sampled_from(ASSERTIONS)),
    st.tuples(st.just("withdraw"), st.sampled_from(ASSERTIONS), st.sampled_from(("stale", "refuted"))),
    st.tuples(st.just("move"), st.integers(0, 7), st.sampled_from(sorted(PRIMITIVE_TRANSITIONS))),
    st.tuples(st.just("move"), st.integers(0, 7), st.just("running")),
    st.tuples(st.just("block"), st.integers(0, 7)),
    st.tuples(st.just("unblock")),
    st.tuples(st.just("skip")),
)


@dataclass
class History:
    """A goal whose every change is also recorded in plain sets."""

    store: Store
    goal: Goal
    facts: set[str] = field(default_factory=set)
    actions: list[Action] = field(default_factory=list)

    def add(self, parent: int | None, kind: str, preconditions: list[str]) -> None:
        position = len(self.actions)
        parent_id = None if parent is None or not self.actions else self.actions[parent % position].id
        action = an_action(
            f"key-{position}",
            goal=self.goal,
            kind=kind,
            parent_id=parent_id,
            preconditions=tuple(preconditions),
            position=-position,
        )
        self.store.actions.add([action])
        self.actions.append(action)

    def show(self, assertion: str) -> None:
        self.store.facts.record(self.goal.id, assertion, commit="c", paths=(), evidence=())
        self.facts.add(assertion)

    def withdraw(self, assertion: str, state: str) -> None:
        self.store.facts.invalidate(self.goal.id, assertion, state)
        self.facts.discard(assertion)

    def move(self, number: int, status: str) -> None:
        if self.actions:
            action = self.actions[number % len(self.actions)]
            with suppress(IllegalTransition):
                self.store.actions.move(action.id, parse_action_state(status, "a reason"))

    def block(self, number: int) -> None:
        self.move(number, "blocked")

    def unblock(self) -> None:
        self.store.actions.unblock(self.goal.id)

    def skip(self) -> None:
        self.store.actions.skip_pending(self.goal.id, "a reason")

    def check(self) -> None:
        """Compare the store with the definition of `core.model.Action.unmet`, counted from scratch."""
        stored = {action.id: action for action in self.store.actions.for_goal(self.goal.id)}
        running = {action.id for action in stored.values() if action.state == parse_action_state("running", None)}
        unmet = {
            action.id: len(set(action.preconditions) - self.facts)
            + (action.parent_id is not None and action.parent_id not in running)
            for action in self.actions
        }
        assert {action_id: action.unmet for action_id, action in stored.items()} == unmet
        ready = [action.id for action in reversed(self.actions) if not unmet[action.id]]
        ready = [action_id for action_id in ready if stored[action_id].state == Pending()]
        for limit in (2, 100):
            assert [action.id for action in self.store.actions.ready(self.goal.id, limit)] == ready[:limit]
        assert self.store.facts.holding(self.goal.id) == self.facts
        assert self.store.actions.tally(self.goal.id) == Counter(status_of(each.state) for each in stored.values())


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    path: Path = tmp_path_factory.mktemp("properties") / "state.db"
    with closing(Store.open(path, clock=FakeClock())) as store:
        yield store


@pytest.fixture(scope="module")
def served(postgres_url: str) -> Iterator[Store]:
    with closing(Store.open(new_location(postgres_url), clock=FakeClock())) as store:
        yield store


@settings(max_examples=up_to(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=st.lists(steps, min_size=1, max_size=25))
@example([("add", None, "primitive", []), ("add", 0, "compound", []), ("move", 0, "running")])
def test_the_stored_count_always_equals_its_definition(store: Store, history: list[tuple]) -> None:
    """SC-4, SC-10: an action is ready exactly if it is pending and none of its preconditions is missing."""
    expect_agreement(store, history)


@pytest.mark.slow
@pytest.mark.postgres
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=st.lists(steps, min_size=1, max_size=25))
def test_the_stored_count_equals_its_definition_on_a_server_too(served: Store, history: list[tuple]) -> None:
    """SC-4, SC-10: the same on PostgreSQL."""
    expect_agreement(served, history)


def expect_agreement(store: Store, history: list[tuple]) -> None:
    """Do each step of the history in a separate transaction, and compare the store with the sets after each."""
    goal = a_goal(run_id=f"run-{next(NUMBERS)}")
    with store.transaction():
        store.runs.add(a_run(goal.run_id))
        store.goals.add(goal)
    result = History(store, goal)
    for name, *arguments in history:
        with store.transaction():
            getattr(result, name)(*arguments)
        result.check()
