"""The hidden command `worker`: executes one attempt."""

from contextlib import closing, suppress

import click

from scaffold.cli.wiring import repository_context, repository_here
from scaffold.core.errors import StoreUnavailable
from scaffold.core.ids import AttemptId
from scaffold.git.repository import Repository
from scaffold.host.process.async_runner import run_async, watch_lifeline
from scaffold.host.startup import relax_gc
from scaffold.run.context import DATABASE_OUTAGE_S, FAULT_EXIT_CODE
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
        context = repository_context(repository, outage_s=DATABASE_OUTAGE_S)
        with closing(context.store):
            run_async(run_attempt(context, AttemptId(attempt), log=_write_log))
            return 0
    except StoreUnavailable as error:
        _write_log(error.in_full)
        return FAULT_EXIT_CODE
    except OSError as error:
        _write_log(f"{error}")
        return FAULT_EXIT_CODE


def _write_log(text: str) -> None:
    with suppress(OSError):  # what is logged may be that the disk is full
        click.echo(text, err=True)
