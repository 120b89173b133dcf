"""The hidden command `supervisor`: supervises one goal until it ends or is paused."""

from functools import partial

import click

from scaffold.agent.model_access import connect_run_model
from scaffold.cli.wiring import repository_context, repository_here
from scaffold.core.errors import StoreUnavailable
from scaffold.core.ids import GoalId
from scaffold.git.repository import Repository
from scaffold.host.process.async_runner import run_async
from scaffold.host.process.lifeline import watch_lifeline
from scaffold.host.startup import relax_gc
from scaffold.orchestrator.planning.supervisor_agent import SupervisorAgent
from scaffold.orchestrator.supervisor.process import DONE_EXIT_CODE, supervise_goal
from scaffold.run.context import RunContext
from scaffold.run.machine_faults import DATABASE_OUTAGE_S, FAULT_EXIT_CODE


@click.command(hidden=True)
@click.argument("goal")
def supervisor(goal: str) -> int:
    """Supervise one goal of a run; started by the engine, which holds the other end of standard input."""
    return run_supervisor(goal, repository_here())


def run_supervisor(goal: str, repository: Repository) -> int:
    """Supervise the goal of this id and return the exit code; standard input is the lifeline of this process."""
    watch_lifeline()
    relax_gc()
    try:
        return run_async(_supervise(repository_context(repository, outage_s=DATABASE_OUTAGE_S), GoalId(goal)))
    except StoreUnavailable as error:
        click.echo(error.in_full, err=True)
        return FAULT_EXIT_CODE


async def _supervise(context: RunContext, goal_id: GoalId) -> int:
    try:
        goal = context.store.goals.get(goal_id)
        run = context.store.runs.get(goal.run_id) if goal else None
        if run is None:
            return DONE_EXIT_CODE
        return await supervise_goal(
            context, run, goal_id, SupervisorAgent(context, run, partial(connect_run_model, run.settings.model))
        )
    finally:
        context.store.close()
