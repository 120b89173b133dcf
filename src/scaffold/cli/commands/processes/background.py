"""The hidden command `background`: executes a run in the background."""

from pathlib import Path

import click

from scaffold.cli.execution.flow import run_to_end
from scaffold.cli.wiring import open_context
from scaffold.host.process.async_runner import run_async
from scaffold.views.store_reader import find_run


@click.command(hidden=True)
@click.argument("run_name", metavar="RUN")
def background(run_name: str) -> int:
    """Execute a run in the background; its output goes to the process log."""
    return run_async(_background(run_name))


async def _background(run_name: str) -> int:
    context = await open_context(Path.cwd())
    try:
        return await run_to_end(context, find_run(context, run_name).id)
    finally:
        context.store.close()
