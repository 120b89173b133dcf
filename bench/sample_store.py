"""A store with one run and one goal of as many actions as a bench asks for."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import structs

from scaffold.core.ids import ActionId, ActionKey, Assertion, Commit, GoalId, RunId
from scaffold.core.model import Action, Goal, Run
from scaffold.core.run_settings import BUILDER, ModelSettings, RunIdentity, RunSettings, Signature
from scaffold.core.states import Active, Pending
from scaffold.host.clock import SystemClock
from scaffold.store.database import Store

BASE = Commit("b" * 40)
SLOTS = 20
"""How many attempts may run at once: the hard cap of a goal."""

_THEN = datetime(2030, 1, 1, tzinfo=UTC)
_ADA = Signature("Ada", "ada@example.org")
_SETTINGS = RunSettings(
    identity=RunIdentity(repository="/nowhere", author=_ADA, committer=_ADA),
    model=ModelSettings(name="cassette:/nowhere.yaml"),
    tier=structs.replace(BUILDER, agents=SLOTS),
)

RUN = Run(
    id=RunId("run"),
    request="a bench",
    input_hash="",
    state=Active(),
    base_branch="main",
    base_sha=BASE,
    session_branch="session-run",
    settings=_SETTINGS,
    created_at=_THEN,
    updated_at=_THEN,
)


def a_goal(desired: Assertion) -> Goal:
    """Return the run's goal, reached as soon as `desired` holds."""
    return Goal(
        id=GoalId("goal"),
        run_id=RUN.id,
        name="goal",
        description="",
        desired=(desired,),
        state=Active(),
        worker_cap=SLOTS,
        created_at=_THEN,
        updated_at=_THEN,
    )


def an_action(number: int, *, needs: tuple[Assertion, ...], effects: tuple[Assertion, ...]) -> Action:
    """Return a primitive of the goal."""
    return Action(
        id=ActionId(f"action-{number}"),
        run_id=RUN.id,
        goal_id=GoalId("goal"),
        parent_id=None,
        key=ActionKey(f"key-{number}"),
        description=f"do {number}",
        kind="primitive",
        method="single",
        role="implementation",
        preconditions=needs,
        effects=effects,
        files=(f"src/part_{number}.py",),
        contract=None,
        state=Pending(),
        unmet=0,
        position=number,
        created_at=_THEN,
        updated_at=_THEN,
    )


@contextmanager
def open_store(goal: Goal, actions: list[Action]) -> Iterator[Store]:
    """Hold a new store with the goal and its actions open."""
    with (
        TemporaryDirectory(prefix="scaffold-bench-") as folder,
        closing(Store.open(Path(folder) / "state.db", clock=SystemClock())) as store,
    ):
        with store.transaction():
            store.runs.add(RUN)
            store.goals.add(goal)
            store.actions.add(actions)
        yield store
