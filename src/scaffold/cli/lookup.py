"""Finding what a reading command is asked about; nothing is made on the way."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import click

from scaffold.cli.place import place_if_any
from scaffold.cli.reader import Readable, find_run, no_run_yet
from scaffold.cli.wiring import site_of
from scaffold.core.errors import StoreEmpty, UsageProblem
from scaffold.core.ids import ActionId, GoalId, Key
from scaffold.core.model import Action, Goal, Run
from scaffold.git.repository import open_repository
from scaffold.plan.wording import Spelling
from scaffold.worker.site import Site

run_option = click.option("--run", "run_name", metavar="RUN", help="The run to look at; the latest without it.")


@asynccontextmanager
async def site_if_any() -> AsyncIterator[Site | None]:
    """Hold the repository's site open; None where nothing was ever run, and then nothing is created either."""
    repository = await open_repository(Path.cwd(), environ=os.environ)
    place = place_if_any(repository.common_dir, os.environ)
    if place is None:
        yield None
        return
    try:
        site = site_of(repository, place)
    except StoreEmpty:
        yield None
        return
    try:
        yield site
    finally:
        site.store.close()


@asynccontextmanager
async def site_with_run(name: str | None) -> AsyncIterator[tuple[Site, Run]]:
    """Hold the site open with the run of that name, or the latest; UsageProblem if there is none."""
    async with site_if_any() as site:
        if site is None:
            raise no_run_yet()
        yield site, find_run(site, name)


def find_action(site: Readable, run: Run, name: str) -> Action:
    """Return the run's action of that key or id; UsageProblem with the closest key if there is none."""
    found = action_if_any(site, run, name)
    if found is not None:
        return found
    hint = Spelling(action.key for action in site.store.actions.of_run(run.id)).hint(name)
    raise UsageProblem(f"run {run.id} has no action `{name}`", f"{hint}`scaffold tasks --run {run.id}` lists them.")


def action_if_any(site: Readable, run: Run, name: str) -> Action | None:
    """Return the run's action of that key or id, None if there is none."""
    found = site.store.actions.by_key(run.id, Key(name)) or site.store.actions.get(ActionId(name))
    return found if found is not None and found.run_id == run.id else None


def find_run_besides(site: Readable, run: Run, name: str) -> Run:
    """Return the run whose id starts with `name`, which no action and no goal of `run` is called; else UsageProblem."""
    if not name or site.store.runs.by_prefix(name.removeprefix("session-")):
        return find_run(site, name)
    goals = (goal.name for goal in site.store.goals.of_run(run.id))
    hint = Spelling([*goals, *(action.key for action in site.store.actions.of_run(run.id))]).hint(name)
    what = f"`{name}` is no run of this repository, and no goal or action of run {run.id}"
    raise UsageProblem(what, f"{hint}`scaffold tasks --run {run.id}` lists its goals and actions.")


def find_goal(site: Readable, run: Run, name: str) -> Goal:
    """Return the run's goal of that name or id; UsageProblem with the closest name if there is none."""
    found = goal_if_any(site, run, name)
    if found is not None:
        return found
    hint = Spelling(goal.name for goal in site.store.goals.of_run(run.id)).hint(name)
    raise UsageProblem(f"run {run.id} has no goal `{name}`", f"{hint}`scaffold goals --run {run.id}` lists them.")


def goal_if_any(site: Readable, run: Run, name: str) -> Goal | None:
    """Return the run's goal of that name or id, None if there is none."""
    found = site.store.goals.by_name(run.id, name) or site.store.goals.get(GoalId(name))
    return found if found is not None and found.run_id == run.id else None
