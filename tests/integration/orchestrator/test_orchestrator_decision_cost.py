"""What a decision about a goal asks of the database, counted in steps of SQLite's virtual machine: exact, no clock."""

from builders import a_goal, a_run, an_action, store_run
from scaffold.core.states import Active, Completed, Landing, Running, Verifying
from scaffold.orchestrator.supervisor.goal_view import read_goal_view
from scaffold.plan.decide import Dispatch, decide
from scaffold.store.database import Store
from scaffold.store.driver.sqlite import IN_MEMORY, SqliteDriver
from support.fake_clock import FakeClock

READY = 3


def _steps(actions: int) -> int:
    """Return the steps of one decision and of what follows from it, in a plan of which about half is done."""
    done = [an_action(f"done-{n}", effects=(f"made-{n}",), position=n) for n in range(actions)]
    ready = [an_action(f"ready-{n}", effects=(f"ready-{n}",), position=actions + n) for n in range(READY)]
    later = [an_action(f"later-{n}", preconditions=("never",), position=2 * actions + n) for n in range(actions)]
    goal = a_goal(desired=("never",), state=Active())
    store, taken = Store.open(IN_MEMORY, clock=FakeClock()), 0

    def count() -> int:
        nonlocal taken
        taken += 1
        return 0

    store_run(store, *done, *ready, *later, goal=goal)

    def finish(*keys: str) -> None:
        found = [store.actions.get(f"run-1/{key}") for key in keys]
        effects = [effect for action in found for effect in action.effects]
        store.actions.move_each(found, Running(), Verifying(), Landing(), Completed())
        store.facts.record_all(goal.id, effects, commit="c", paths=(), evidence=())

    with store.transaction():
        finish(*(action.key for action in done))
    driver = store._connection.driver
    assert isinstance(driver, SqliteDriver)
    driver._raw.set_progress_handler(count, 1)
    with store.transaction():
        commands = decide(read_goal_view(store, a_run(), goal))
        assert commands == tuple(Dispatch(action.id) for action in ready)
        finish(*(action.key for action in ready))
    store.close()
    return taken


def test_a_decision_takes_as_many_steps_of_the_database_in_a_plan_of_any_size() -> None:
    """BX-23: none of its statements, whichever they are, reads what is done or what cannot start yet."""
    assert _steps(400) == _steps(40)
