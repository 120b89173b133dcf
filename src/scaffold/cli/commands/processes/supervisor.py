"""The hidden command `supervisor`: supervises goals of a run."""

import traceback
from collections.abc import Sequence
from contextlib import closing
from functools import partial

import click

from scaffold.cli.wiring import repository_context, repository_here
from scaffold.core.errors import StoreUnavailable
from scaffold.core.ids import GoalId
from scaffold.git.repository import Repository
from scaffold.host.process.async_runner import run_async, watch_lifeline
from scaffold.host.startup import relax_gc
from scaffold.orchestrator.planning.supervisor_agent import SupervisorAgent
from scaffold.orchestrator.supervisor.goal_process import DONE_EXIT_CODE, supervise_goals
from scaffold.run.context import DATABASE_OUTAGE_S, FAULT_EXIT_CODE, RunContext
from scaffold.worker.agent.role_agents import open_source


@click.command(hidden=True)
@click.argument("goals")
def supervisor(goals: str) -> int:
    """Supervise goals of a run, by their ids with commas between; started by the engine, which holds its input."""
    return run_supervisor(goals, repository_here())


def run_supervisor(goals: str, repository: Repository) -> int:
    """Supervise the goals and return the exit code; standard input is the lifeline of this process."""
    watch_lifeline()
    relax_gc()
    try:
        context = repository_context(repository, outage_s=DATABASE_OUTAGE_S)
        return run_async(_supervise_goals(context, [GoalId(goal) for goal in goals.split(",")]))
    except StoreUnavailable as error:
        click.echo(error.in_full, err=True)
        return FAULT_EXIT_CODE


async def _supervise_goals(context: RunContext, goals: Sequence[GoalId]) -> int:
    with closing(context.store):
        goal = context.store.goals.get(goals[0])
        run = context.store.runs.get(goal.run_id) if goal else None
        if run is None:
            return DONE_EXIT_CODE
        agent = SupervisorAgent(context, run, partial(open_source, context, run, "supervisor"))
        return await supervise_goals(context, run, goals, agent, traceback.print_exception)
