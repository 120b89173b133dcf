"""Read the repository's runs as JSON; each call opens and closes the store."""

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from scaffold.core.model import Run
from scaffold.core.states import reason_of, status_of
from scaffold.host.wall_clock import WallClock
from scaffold.views.changes.taken_work import without_taken
from scaffold.views.name_lookup import find_action, find_goal
from scaffold.views.run_json import Json, action_json, agent_json, fact_json, run_json
from scaffold.views.run_list import read_runs
from scaffold.views.run_view import RunSummary, read_run_view, read_summary
from scaffold.views.store_reader import StoreReader, find_run, no_run_error, store_reader_if_any
from scaffold.views.waiting import WaitingEntry, entry_json
from scaffold.views.waiting_of_user import read_waiting_here

MAX_RUNS = 50  # in one answer, which a model reads
MAX_ACTIONS = 100  # in one answer; `offset` gets the others
Read = Callable[[StoreReader], Json]


@contextmanager
def opened_store(cwd: Path) -> Iterator[StoreReader]:
    """Open the store of the repository around `cwd`; UsageError if there is no run yet."""
    with store_reader_if_any(cwd, os.environ) as reader:
        if reader is None:
            raise no_run_error()
        yield reader


def runs_json(cwd: Path) -> Json:
    """Return the runs, the one touched last first; an empty list if there is none."""
    with store_reader_if_any(cwd, os.environ) as reader:
        found = () if reader is None else read_runs(reader)
    shown = [msgspec.to_builtins(run) for run in found[:MAX_RUNS]]
    return {"runs": shown, "more": max(0, len(found) - MAX_RUNS)}


def run_status_json(cwd: Path, name: str | None) -> Json:
    """Return the progress of a run, the latest if `name` is None: goals in numbers, agents, inbox."""
    with opened_store(cwd) as reader:
        return summary_json(read_summary(reader, find_run(reader, name)))


def summary_json(summary: RunSummary) -> Json:
    """Return a summary; times are ISO-8601 in UTC."""
    value = {
        "run": {**run_json(summary), "is_live": summary.is_live, "ending": summary.ending or None},
        "goals": [msgspec.to_builtins(goal) for goal in summary.goals],
        "agents": [agent_json(row) for row in summary.agents],
        "inbox": [item_json(entry) for entry in summary.waiting],
    }
    return plain(value)


def actions_json(cwd: Path, name: str | None, *, goal: str | None, status: str | None, offset: int) -> Json:
    """Return the actions of a run in plan order, a page of them, in short."""
    with opened_store(cwd) as reader:
        run = find_run(reader, name)
        view = read_run_view(reader, run)
        wanted = None if goal is None else find_goal(reader, run, goal).id
    goals = {each.id: each.name for each in view.goals}
    found = [  # filtered before paging, so that `total` counts the matches
        action
        for action in view.actions
        if wanted in {None, action.goal_id} and status in {None, status_of(action.state)}
    ]
    shown = [
        {
            "key": action.key,
            "goal": goals[action.goal_id],
            "kind": action.kind,
            "role": action.role,
            "title": action.title or action.description.partition("\n")[0][:200],
            "status": status_of(action.state),
            "reason": reason_of(action.state),
            "attempts": len(view.attempts_of(action)),
            "preconditions": list(action.preconditions),
            "effects": list(action.effects),
        }
        for action in islice(found, offset, offset + MAX_ACTIONS)
    ]
    return plain({"run": run.id, "actions": shown, "total": len(found), "offset": offset})


def one_action_json(cwd: Path, name: str | None, action: str) -> Json:
    """Return an action with its attempts, and the facts that it made with their evidence."""
    with opened_store(cwd) as reader:
        run = find_run(reader, name)
        found = find_action(reader, run, action)
        view = read_run_view(reader, run)
    facts = [fact_json(fact) for fact in view.facts[found.goal_id] if fact.assertion in found.effects]
    return plain({"run": run.id, "action": action_json(view, found), "facts": facts})


def evidence_json(cwd: Path, name: str | None, goal: str | None) -> Json:
    """Return the facts of a run, or of one goal, with the evidence of each; what a goal lacks is missing."""
    with opened_store(cwd) as reader:
        run = find_run(reader, name)
        view = read_run_view(reader, run)
        wanted = None if goal is None else find_goal(reader, run, goal).id
    goals = [
        {
            "goal": each.name,
            "status": status_of(each.state),
            "missing": [assertion for assertion in each.desired if assertion not in view.holding(each)],
            "facts": [fact_json(fact) for fact in view.facts_of(each)],
        }
        for each in view.goals
        if wanted in {None, each.id}
    ]
    return plain({"run": run.id, "status": view.status, "goals": goals})


async def inbox_json(cwd: Path) -> Json:
    """Return what waits for a human, oldest first: all of it, and the open items of the inbox in full."""

    def read() -> Sequence[WaitingEntry]:
        with store_reader_if_any(cwd, os.environ) as reader:
            return read_waiting_here(reader, WallClock())

    entries, now = await without_taken(await asyncio.to_thread(read)), WallClock().now()
    items = [item_json(entry) for entry in entries if entry.item is not None]
    return plain({"inbox": items, "waiting": [entry_json(entry, now) for entry in entries]})


def item_json(entry: WaitingEntry) -> Json:
    """Return the inbox item of an entry, with the commands that decide it at a terminal."""
    names = ("id", "run_id", "kind", "state", "text", "detail", "created_at", "expires_at")
    return {**{name: getattr(entry.item, name) for name in names}, "decide_with": list(entry.commands)}


def read_run_and_summary(cwd: Path, name: str | None) -> tuple[Run, RunSummary]:
    """Return a run with its summary."""
    with opened_store(cwd) as reader:
        run = find_run(reader, name)
        return run, read_summary(reader, run)


def plain(value: Mapping[str, Any]) -> Json:
    """Return the value with JSON types only."""
    built: Json = msgspec.to_builtins(value)
    return built
