"""The hidden command `supervisor`: one process, one goal, until that has ended or is put down."""

from functools import partial

import click

from scaffold.cli.models import opened_model
from scaffold.cli.wiring import open_store, repository_here
from scaffold.core.ids import GoalId
from scaffold.git.repository import Repository
from scaffold.host.collector import calm_down
from scaffold.host.lifeline import hold
from scaffold.host.loop import run_async
from scaffold.orchestrator.pursuit import DONE, pursue
from scaffold.orchestrator.thinking import Thinker
from scaffold.worker.site import Site


@click.command(hidden=True)
@click.argument("goal")
def supervisor(goal: str) -> int:
    """Pursue one goal of a run; started by the engine, which holds the other end of standard input."""
    return supervise(goal, repository_here())


def supervise(goal: str, repository: Repository) -> int:
    """Pursue the goal of this id and return the exit code; standard input is the lifeline of this process."""
    hold()
    calm_down()
    return run_async(_pursue(open_store(repository), GoalId(goal)))


async def _pursue(site: Site, goal_id: GoalId) -> int:
    try:
        goal = site.store.goals.get(goal_id)
        run = site.store.runs.get(goal.run_id) if goal else None
        if run is None:
            return DONE
        return await pursue(site, run, goal_id, Thinker(site, run, partial(opened_model, run.settings.model)))
    finally:
        site.store.close()
