"""Runs, goals, actions and attempts with everything filled in that a test does not care about."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from scaffold.core.model import (
    Action,
    Attempt,
    Evidence,
    Goal,
    Intent,
    ProcessIdentity,
    Run,
    RunSettings,
    Signature,
    Usage,
)
from scaffold.core.states import Active, Pending, Planning
from scaffold.host.clock import FakeClock
from scaffold.host.identity import identify, own_identity
from scaffold.store.database import Store
from scaffold.store.driver.location import PostgresLocation, StoreLocation

THEN = datetime(2030, 1, 1, 12, 30, tzinfo=UTC)
BASE = "b" * 40
HEAD = "c" * 40
STEP_S = 0.01
NOBODY = 65534
ME = own_identity()
ALIVE = identify(os.getppid())
"""Another process that lives as long as the test."""
OWNER = ProcessIdentity(100, "start-100", "boot")
RIVAL = ProcessIdentity(200, "start-200", "boot")
SETTINGS = RunSettings(
    repository="/somewhere/shop",
    model="cassette:/somewhere/shop.yaml",
    author=Signature("Ada", "ada@example.org"),
    committer=Signature("Ada", "ada@example.org"),
)


def a_run(run_id: str = "run-1", **fields: Any) -> Run:
    given = {
        "request": "add a shop",
        "input_hash": "input-1",
        "state": Planning(),
        "base_branch": "main",
        "base_sha": BASE,
        "session_branch": f"session-{run_id}",
        "settings": SETTINGS,
        "created_at": THEN,
        "updated_at": THEN,
    }
    return Run(id=run_id, **(given | fields))


def a_goal(name: str = "shop", *, run_id: str = "run-1", **fields: Any) -> Goal:
    given = {
        "id": f"{run_id}/{name}",
        "description": f"the {name} works",
        "desired": ("done",),
        "state": Active(),
        "created_at": THEN,
        "updated_at": THEN,
    }
    return Goal(run_id=run_id, name=name, **(given | fields))


def an_action(key: str, *, goal: Goal | None = None, **fields: Any) -> Action:
    goal = goal or a_goal()
    given = {
        "id": f"{goal.run_id}/{key}",
        "run_id": goal.run_id,
        "goal_id": goal.id,
        "parent_id": None,
        "description": f"do {key}",
        "kind": "primitive",
        "method": "htn",
        "role": "implementation",
        "preconditions": (),
        "effects": (),
        "files": (),
        "contract": None,
        "state": Pending(),
        "unmet": 0,
        "position": 0,
        "created_at": THEN,
        "updated_at": THEN,
    }
    return Action(key=key, **(given | fields))


def an_attempt(action: Action, number: int = 1, **fields: Any) -> Attempt:
    given = {
        "id": f"{action.id}#{number}",
        "fence": 1,
        "status": "queued",
        "phase": "workspace",
        "base_sha": BASE,
        "usage": Usage(),
        "queued_at": THEN,
    }
    return Attempt(run_id=action.run_id, action_id=action.id, number=number, **(given | fields))


def an_intent(attempt: Attempt, intent_id: str = "intent-1", **fields: Any) -> Intent:
    given = {"fence": 1, "ref": "refs/heads/session-run-1", "old": BASE, "new": HEAD}
    return Intent(id=intent_id, run_id=attempt.run_id, attempt_id=attempt.id, **(given | fields))


def some_evidence(detail: str = "3 passed") -> Evidence:
    return Evidence(kind="contract", command="pytest -q", exit_code=0, commit=HEAD, at=THEN, detail=detail)


def lay_out(store: Store, *actions: Action, goal: Goal | None = None) -> None:
    """Store one run with one goal and its actions."""
    goal = goal or a_goal()
    with store.transaction():
        store.runs.add(a_run(goal.run_id))
        store.goals.add(goal)
        if actions:
            store.actions.add(actions)


def claim(store: Store, attempt: Attempt, phase: str = "workspace") -> None:
    """Open the attempt, give it to a worker and take it through to `phase`."""
    with store.transaction():
        store.attempts.open(attempt)
        store.attempts.claim(attempt.id, fence=attempt.fence, worker=OWNER, worktree="/tree", log_file="/log")
        store.attempts.advance(attempt.id, fence=attempt.fence, phase=phase)


def events_of(store: Store, run_id: str = "run-1") -> list[Any]:
    return [recorded.event for recorded in store.events.since(run_id, 0)]


def words_of(place: StoreLocation) -> list[str]:
    """Return the place as arguments of a command."""
    return [str(place)] if isinstance(place, Path) else [place.url, place.schema]


def place_of(words: list[str]) -> StoreLocation:
    """Return the place that `words_of` gave."""
    return Path(words[0]) if len(words) == 1 else PostgresLocation(*words)


async def pass_time(clock: FakeClock, seconds: float) -> None:
    """Let time pass in small steps, and everybody who wakes do what he wants to."""
    for _ in range(round(seconds / STEP_S)):
        await let_run()
        clock.advance(STEP_S)
    await let_run()


async def let_run() -> None:
    """Let everybody go on who can at this moment."""
    for _ in range(3):
        await asyncio.sleep(0)


@contextmanager
def unprivileged() -> Iterator[None]:
    """Permissions count for the superuser, too, while this lasts."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if user == 0:
            os.seteuid(user)
