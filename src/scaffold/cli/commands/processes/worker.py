"""The hidden command `worker`: executes one attempt."""

from functools import partial

import click

from scaffold.cli.wiring import repository_context, repository_here
from scaffold.core.ids import AttemptId
from scaffold.git.repository import Repository
from scaffold.host.process.async_runner import run_async
from scaffold.host.process.lifeline import watch_lifeline
from scaffold.host.startup import relax_gc
from scaffold.run.context import RunContext
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
    return run_async(_run(repository_context(repository), AttemptId(attempt)))


async def _run(context: RunContext, attempt_id: AttemptId) -> int:
    try:
        await run_attempt(context, attempt_id, log=partial(click.echo, err=True))
    finally:
        context.store.close()
    return 0
