"""What it costs to flip one fact and ask for the first ready actions, in small plans and in large ones."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from row import Row, medians, row, seconds
from sample_store import BASE, a_goal, an_action, open_store
from scaffold.core.ids import ActionId, Assertion
from scaffold.core.model import Action
from scaffold.plan.graph.readiness import ActionNode
from scaffold.store.database import Store
from scaffold.store.driver.columns import ASSERTIONS

FIRST = 100
NEEDERS = 10
"""How many actions wait for the fact that is flipped."""

SCAN = (
    "SELECT id, parent_id, preconditions, effects, status, kind FROM action WHERE goal_id = :goal_id ORDER BY position"
)
NEVER = Assertion("never")
FLIPPED = Assertion("flipped")
SHOWN = Assertion("shown")


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield: a large plan against a scan of all of it, and against a small plan."""
    small, large, rounds = (200, 2_000, 3) if quick else (1_000, 100_000, 7)
    with ExitStack() as stack:
        in_small = stack.enter_context(open_store(a_goal(NEVER), actions(small)))
        in_large = stack.enter_context(open_store(a_goal(NEVER), actions(large)))
        show(in_small, SHOWN)
        show(in_large, SHOWN)
        flip_small, flip_large, scan = medians(
            rounds, lambda: flip(in_small), lambda: flip(in_large), lambda: seconds(lambda: naive(in_large))
        )
    yield row(f"store-flip-{large}-against-scan", flip_large * 1000, scan * 1000, unit="ms", goal=1 / 90)
    yield row(f"store-flip-{large}-against-{small}", flip_large * 1000, flip_small * 1000, unit="ms", goal=1.5)


def actions(count: int) -> list[Action]:
    """Return a plan in which half is ready, some wait for the flipped fact, and the others for one that never holds."""
    waits = {0: (SHOWN,), 1: (SHOWN, NEVER)}
    plain = [an_action(n, needs=waits[n % 2], effects=(Assertion(f"made-{n}"),)) for n in range(NEEDERS, count)]
    return [an_action(n, needs=(FLIPPED,), effects=()) for n in range(NEEDERS)] + plain


def flip(store: Store) -> float:
    """Return the seconds it takes to make a fact hold and read the first ready actions; the fact is withdrawn again."""

    def once() -> None:
        show(store, FLIPPED)
        if len(store.actions.ready(a_goal(NEVER).id, FIRST)) != FIRST:
            raise AssertionError

    taken = seconds(once)
    with store.transaction():
        store.facts.invalidate(a_goal(NEVER).id, FLIPPED, "stale")
    return taken


def show(store: Store, assertion: Assertion) -> None:
    """Make an assertion hold."""
    with store.transaction():
        store.facts.record(a_goal(NEVER).id, assertion, commit=BASE, paths=(), evidence=())


def naive(store: Store) -> None:
    """Show the fact, read what readiness depends on of every action, and apply the definition."""
    goal_id = a_goal(NEVER).id
    show(store, FLIPPED)
    nodes = [
        ActionNode(
            id=each["id"],
            parent_id=each["parent_id"],
            preconditions=ASSERTIONS.read(each["preconditions"]),
            effects=ASSERTIONS.read(each["effects"]),
            status=each["status"],
            kind=each["kind"],
        )
        for each in store._connection.rows(SCAN, goal_id=goal_id)  # noqa: SLF001 - no product code reads it all
    ]
    found = ready_actions(nodes, store.facts.holding(goal_id))[:FIRST]
    if [action.id for action in store.actions.ready(goal_id, FIRST)] != list(found):
        raise AssertionError
    with store.transaction():
        store.facts.invalidate(goal_id, FLIPPED, "stale")


def ready_actions(actions: Sequence[ActionNode], facts: frozenset[Assertion]) -> tuple[ActionId, ...]:
    """Return the actions that may start, by the definition: pending, all needs hold, the parent (if any) is running."""
    running = {action.id for action in actions if action.status == "running"}
    return tuple(
        action.id
        for action in actions
        if action.status == "pending"
        and facts.issuperset(action.preconditions)
        and (action.parent_id is None or action.parent_id in running)
    )
