"""What an action costs that takes no work at all: the store and the decision, beside a bare SQLite loop."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from row import Row, medians, row, seconds
from sample_store import BASE, RUN, a_goal, an_action, open_store
from scaffold.core.ids import Assertion
from scaffold.core.model import Action, Evidence, Goal
from scaffold.core.states import Completed, Landing, Running, Verifying
from scaffold.host.clock import SystemClock
from scaffold.orchestrator.supervisor.goal_view import read_goal_view
from scaffold.plan.decide import CompleteGoal, Dispatch, decide
from scaffold.store.database import Store

CHAIN = 10
"""Every action but each tenth waits for the one before it."""


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield: an action against two bare transactions, and an action of a large plan against one of a small plan."""
    small, large, rounds = (40, 120, 1) if quick else (1_000, 10_000, 5)
    bare, ours, many = medians(
        rounds,
        lambda: _each(bare_loop, small, large),
        lambda: _each(carried_out, small, large),
        lambda: carried_out(large) / large,
    )
    yield row(f"store-{small}-trivial-actions", ours * 1e6, bare * 1e6, unit="us each", goal=2.2)
    yield row(f"store-{large}-trivial-actions-against-{small}", many * 1e6, ours * 1e6, unit="us each", goal=1.1)


def _each(carry_out: Callable[[int], float], small: int, large: int) -> float:
    """Return the seconds for one action of a small plan, over as many plans as make up a large one.

    One small plan alone is over within a tenth of a second, less than the disk's moods last.
    """
    return sum(carry_out(small) for _ in range(large // small)) / (large // small * small)


def bare_loop(count: int) -> float:
    """Return the seconds for two transactions for each action: a row changes, another one tells of it."""
    with (
        TemporaryDirectory(prefix="scaffold-bench-") as folder,
        closing(sqlite3.connect(Path(folder) / "bare.db", isolation_level=None)) as raw,
    ):
        raw.execute("PRAGMA journal_mode = WAL")
        raw.execute("PRAGMA synchronous = NORMAL")
        raw.execute("CREATE TABLE action (id TEXT PRIMARY KEY, status TEXT NOT NULL, result TEXT)")
        raw.execute("CREATE TABLE event (seq INTEGER PRIMARY KEY, action TEXT NOT NULL, status TEXT NOT NULL)")
        raw.execute("BEGIN IMMEDIATE")
        raw.executemany("INSERT INTO action VALUES (?, 'pending', NULL)", [(f"action-{n}",) for n in range(count)])
        raw.execute("COMMIT")

        def loop() -> None:
            for number in range(count):
                for status in ("running", "completed"):
                    action = f"action-{number}"
                    raw.execute("BEGIN IMMEDIATE")
                    raw.execute("UPDATE action SET status = ? WHERE id = ?", (status, action))
                    raw.execute("INSERT INTO event (action, status) VALUES (?, ?)", (action, status))
                    raw.execute("COMMIT")

        return seconds(loop)


def carried_out(count: int) -> float:
    """Return the seconds it takes to carry out a whole goal of trivial actions, with all their states and facts."""
    actions = [_action(number) for number in range(count)]
    goal = a_goal(actions[-1].effects[0])
    with open_store(goal, actions) as store:
        taken = seconds(lambda: _supervise(store, goal))
        done = store.actions.tally(goal.id), len(store.facts.holding(goal.id)), store.goals.get(goal.id)
    if done[:2] != ({"completed": count}, count) or done[2] is None or done[2].state != Completed():
        raise AssertionError(done)
    return taken


def _action(number: int) -> Action:
    needs = (_made(number - 1),) if number % CHAIN else ()
    return an_action(number, needs=needs, effects=(_made(number),))


def _made(number: int) -> Assertion:
    return Assertion(f"made-{number}")


def _supervise(store: Store, goal: Goal) -> None:
    """Look, decide, carry out, as a supervisor does: one transaction for each decision."""
    clock = SystemClock()
    while True:
        with store.transaction():
            commands = decide(read_goal_view(store, RUN, goal))
            if commands == (CompleteGoal(),):
                store.goals.move(goal.id, Completed())
                return
            dispatched = {command.action for command in commands if isinstance(command, Dispatch)}
            actions = store.actions.ready(goal.id, len(commands))
            if dispatched != {action.id for action in actions}:
                raise AssertionError(commands)
            store.actions.move_each(actions, Running(), Verifying(), Landing(), Completed())
            shown = Evidence(kind="trivial", command=None, exit_code=None, commit=BASE, at=clock.now(), detail="")
            effects = [effect for action in actions for effect in action.effects]
            store.facts.record_all(goal.id, effects, commit=BASE, paths=(), evidence=(shown,))
