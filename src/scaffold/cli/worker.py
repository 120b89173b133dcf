"""The hidden command `worker`: one process, one attempt, then gone."""

import traceback

import click

from scaffold.cli.models import opened_model
from scaffold.cli.wiring import open_store, repository_here
from scaffold.core.errors import StaleFence
from scaffold.core.ids import AttemptId
from scaffold.git.repository import Repository
from scaffold.host.collector import calm_down
from scaffold.host.identity import own_identity
from scaffold.host.lifeline import hold
from scaffold.host.loop import run_async
from scaffold.worker.assignment import Assignment, read_assignment
from scaffold.worker.attempt import Worker
from scaffold.worker.ending import conclude
from scaffold.worker.lease import beating
from scaffold.worker.site import Site

STALE = 0
"""Somebody else has the attempt: nothing to report, nothing to do."""


@click.command(hidden=True)
@click.argument("attempt")
def worker(attempt: str) -> int:
    """Carry out one attempt of a run; started by the engine, which holds the other end of standard input."""
    return work(attempt, repository_here())


def work(attempt: str, repository: Repository) -> int:
    """Carry out the attempt of this id and return the exit code; standard input is the lifeline of this process."""
    hold()
    calm_down()
    return run_async(_carry_out(open_store(repository), AttemptId(attempt)))


async def _carry_out(site: Site, attempt_id: AttemptId) -> int:
    try:
        task = read_assignment(site.store, attempt_id)
        await _guarded(site, task)
    except StaleFence as stale:
        click.echo(site.redactor.clean(stale.what), err=True)
        return STALE
    finally:
        site.store.close()
    return 0


async def _guarded(site: Site, task: Assignment) -> None:
    """Run the worker; what nobody expected ends the attempt with its name, and the traceback in the process log."""
    journal = site.journal(task.goal.name, task.action.key)
    try:
        async with opened_model(task.run.settings.model) as model, beating(site.store, task.attempt, site.clock):
            await Worker(site, task, model).carry_out(own_identity(), log_file=str(journal))
    except StaleFence:
        raise
    except Exception as error:  # noqa: BLE001 - the worker's boundary: whatever went wrong is written down
        redactor = site.redactor
        click.echo(redactor.clean(traceback.format_exc()), err=True)
        conclude(
            site.store,
            task.run,
            task.attempt.id,
            "executor_failed",
            error=redactor.clean(f"{type(error).__name__}: {error}"),
            fence=task.attempt.fence,
        )
