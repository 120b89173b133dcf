"""The hidden command `worker`: one process, one attempt, then gone."""

import traceback

import click

from scaffold.agent.model_access import connect_model
from scaffold.cli.wiring import repository_context, repository_here
from scaffold.core.errors import StaleFence
from scaffold.core.ids import AttemptId
from scaffold.git.repository import Repository
from scaffold.host.identity import own_identity
from scaffold.host.process.async_runner import run_async
from scaffold.host.process.gc_tuning import relax_gc
from scaffold.host.process.lifeline import watch_lifeline
from scaffold.run.assignment import Assignment, read_assignment
from scaffold.run.attempt_end import end_attempt
from scaffold.run.context import RunContext
from scaffold.run.lease import send_heartbeats
from scaffold.worker.attempt import Worker

STALE = 0
"""Somebody else has the attempt: nothing to report, nothing to do."""


@click.command(hidden=True)
@click.argument("attempt")
def worker(attempt: str) -> int:
    """Carry out one attempt of a run; started by the engine, which holds the other end of standard input."""
    return run_worker(attempt, repository_here())


def run_worker(attempt: str, repository: Repository) -> int:
    """Carry out the attempt of this id and return the exit code; standard input is the lifeline of this process."""
    watch_lifeline()
    relax_gc()
    return run_async(_carry_out(repository_context(repository), AttemptId(attempt)))


async def _carry_out(site: RunContext, attempt_id: AttemptId) -> int:
    try:
        task = read_assignment(site.store, attempt_id)
        await _run_recording_errors(site, task)
    except StaleFence as stale:
        click.echo(site.redactor.clean(stale.what), err=True)
        return STALE
    finally:
        site.store.close()
    return 0


async def _run_recording_errors(site: RunContext, task: Assignment) -> None:
    """Run the worker; what nobody expected ends the attempt with its name, and the traceback in the process log."""
    journal = site.journal(task.goal.name, task.action.key)
    try:
        async with (
            connect_model(task.run.settings.model.name) as model,
            send_heartbeats(site.store, task.attempt, site.clock),
        ):
            await Worker(site, task, model).carry_out(own_identity(), log_file=str(journal))
    except StaleFence:
        raise
    except Exception as error:  # noqa: BLE001 - the worker's boundary: whatever went wrong is written down
        redactor = site.redactor
        click.echo(redactor.clean(traceback.format_exc()), err=True)
        end_attempt(
            site.store,
            task.run,
            task.attempt.id,
            "executor_failed",
            error=redactor.clean(f"{type(error).__name__}: {error}"),
            fence=task.attempt.fence,
        )
