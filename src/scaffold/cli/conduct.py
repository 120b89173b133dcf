"""The hidden command `conduct`: carries a run out in the background."""

from pathlib import Path

import click

from scaffold.cli.carry import carry_on
from scaffold.cli.reader import find_run
from scaffold.cli.wiring import open_site
from scaffold.host.loop import run_async


@click.command(hidden=True)
@click.argument("run_name", metavar="RUN")
def conduct(run_name: str) -> int:
    """Carry a run out in the background; its lines go to where standard output goes."""
    return run_async(_conduct(run_name))


async def _conduct(run_name: str) -> int:
    site = await open_site(Path.cwd())
    try:
        return await carry_on(site, find_run(site, run_name).id)
    finally:
        site.store.close()
