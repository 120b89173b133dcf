"""The hidden commands `worker`, `supervisor` and `zygote`: the child processes of a run."""

import concurrent.futures.thread  # noqa: F401 - asyncio would load it in each child
import os
import socket
import sys
import sysconfig
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial

import click

from scaffold.agent.model_access import connect_run_model, load_transport_class
from scaffold.cli.wiring import repository_context, repository_here
from scaffold.core.errors import StoreUnavailable
from scaffold.core.ids import AttemptId, GoalId
from scaffold.git.repository import Repository
from scaffold.host.process.async_runner import run_async, watch_lifeline
from scaffold.host.process.forked_reapers import reaper_server
from scaffold.host.process.zygote_server import serve
from scaffold.host.startup import relax_gc
from scaffold.orchestrator.planning.supervisor_agent import SupervisorAgent
from scaffold.orchestrator.supervisor.goal_process import DONE_EXIT_CODE, supervise_goals
from scaffold.run.context import DATABASE_OUTAGE_S, FAULT_EXIT_CODE, RunContext
from scaffold.worker.process import run_attempt


@click.command(hidden=True)
@click.argument("attempt")
def worker(attempt: str) -> int:
    """Execute one attempt of a run; started by the engine, which holds the other end of standard input."""
    return run_worker(attempt, repository_here())


def run_worker(attempt: str, repository: Repository) -> int:
    """Execute the attempt of this id and return the exit code; standard input is the lifeline of this process."""
    watch_lifeline()
    relax_gc()
    try:
        return run_async(
            _execute_attempt(repository_context(repository, outage_s=DATABASE_OUTAGE_S), AttemptId(attempt))
        )
    except StoreUnavailable as error:
        _write_log(error.in_full)
        return FAULT_EXIT_CODE
    except OSError as error:
        _write_log(f"{error}")
        return FAULT_EXIT_CODE


async def _execute_attempt(context: RunContext, attempt_id: AttemptId) -> int:
    with closing(context.store):
        await run_attempt(context, attempt_id, log=_write_log)
    return 0


def _write_log(text: str) -> None:
    with suppress(OSError):  # what is logged may be that the disk is full
        click.echo(text, err=True)


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
        agent = SupervisorAgent(context, run, partial(connect_run_model, run.settings.agent_model("supervisor")))
        return await supervise_goals(context, run, goals, agent, traceback.print_exception)


PROCESS_MAINS: Mapping[str, Callable[[str, Repository], int]] = {"worker": run_worker, "supervisor": run_supervisor}
"""The roles of its children; each takes the argument of the request and returns an exit code."""


@click.command(hidden=True)
@click.argument("line", type=int)
@click.option("--live", is_flag=True, help="Also load the transport to live models.")
def zygote(line: int, *, live: bool) -> int:
    """Fork workers and supervisors for a run, which sends requests on the descriptor LINE."""
    if live:
        load_transport_class()
    sysconfig.get_config_vars()  # computed once, for all children
    # Before the fork: opening a repository runs git, and every child would run it again.
    repository = repository_here()
    with suppress(OSError):
        reaper_server().start()  # one for all children
    born = serve(socket.socket(fileno=line))
    if born is None:
        return 0
    code = PROCESS_MAINS[born.main](born.argument, repository)
    # `_exit` flushes nothing. On a full disk the log stays incomplete; the exit code must not change by it.
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(code)  # an orderly shutdown of the interpreter would copy shared memory
