"""The hidden command `supervisor`: one process, one goal, until that has ended or is put down."""

import asyncio
from functools import partial
from pathlib import Path

import click

from scaffold.cli.models import opened_model
from scaffold.cli.wiring import open_site
from scaffold.core.ids import GoalId
from scaffold.host.collector import calm_down
from scaffold.host.lifeline import hold
from scaffold.orchestrator.pursuit import DONE, pursue
from scaffold.orchestrator.thinking import Thinker


@click.command(hidden=True)
@click.argument("goal")
def supervisor(goal: str) -> int:
    """Pursue one goal of a run; started by the engine, which holds the other end of standard input."""
    return supervise(goal)


def supervise(goal: str) -> int:
    """Pursue the goal of this id and return the exit code; standard input is the lifeline of this process."""
    hold()
    calm_down()
    return asyncio.run(_pursue(GoalId(goal)))


async def _pursue(goal_id: GoalId) -> int:
    site = await open_site(Path.cwd())
    try:
        goal = site.store.goals.get(goal_id)
        run = site.store.runs.get(goal.run_id) if goal else None
        if run is None:
            return DONE
        return await pursue(site, run, goal_id, Thinker(site, run, partial(opened_model, run.settings.model)))
    finally:
        site.store.close()
