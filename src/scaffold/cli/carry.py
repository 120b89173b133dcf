"""Carrying a run on from wherever it stands: laid out first if it has no plan yet, here or in the background."""

import click
import msgspec

from scaffold.cli.detached import send_away
from scaffold.cli.drive import drive
from scaffold.cli.flags import Flags
from scaffold.cli.layout import laid_out
from scaffold.cli.offer import Offer
from scaffold.cli.reader import interrupted_runs
from scaffold.cli.sandbox import found, held_by
from scaffold.cli.snapshot import snapshot
from scaffold.core.errors import ScaffoldError
from scaffold.core.ids import RunId
from scaffold.orchestrator.takeover import known_run
from scaffold.orchestrator.writing import plan_of
from scaffold.worker.lease import owned
from scaffold.worker.site import Site


async def go_on(site: Site, run_id: RunId, flags: Flags) -> int:
    """Carry a run on here, or have it carried on in the background; return the exit code."""
    if not flags.detach:
        return await carry_on(site, run_id, as_json=flags.as_json)
    _let_go(site, run_id)
    pid = send_away(site, run_id)
    click.echo(f"run {run_id} goes on in the background, process {pid}", err=flags.as_json)
    click.echo(f"  watch it: scaffold attach {run_id}    stop it: scaffold stop {run_id}", err=flags.as_json)
    tell_result(site, run_id, as_json=flags.as_json)
    return 0


async def carry_on(site: Site, run_id: RunId, *, as_json: bool = False) -> int:
    """Carry a run on to its end, or to where it has to be put down; return the exit code. Raises as `planned`."""
    if not site.store.goals.of_run(run_id):
        code = await planned(site, run_id, as_json=as_json)
        if code is not None:
            return code
        await show_offer(site, run_id)
    return await drive(site, run_id, as_json=as_json)


async def planned(site: Site, run_id: RunId, *, as_json: bool = False) -> int | None:
    """Return None once a run has a plan, laid out here if need be, else the exit code.

    Raises what `laying.laid_out` raises; JSON ends with the result in any case.
    """
    if site.store.goals.of_run(run_id):
        return None
    try:
        code = await laid_out(site, run_id, as_json=as_json)
    except ScaffoldError:
        tell_result(site, run_id, as_json=as_json)
        raise
    if code is not None:
        tell_result(site, run_id, as_json=as_json)
    return code


async def show_offer(site: Site, run_id: RunId) -> None:
    """Tell, on standard error, what a run that is laid out is going to do, with what, and what holds its commands."""
    run = known_run(site.store, run_id)
    click.echo(f"{Offer(run, plan_of(site.store, run)).text()}\n{held_by(await found(), run.settings)}", err=True)


def tell_interrupted(site: Site) -> None:
    """Say, on standard error, that there are runs that nobody carries out any more, and what to do about the latest."""
    left = interrupted_runs(site)
    if left:
        name, more = left[0].id, f" and {len(left) - 1} more" if len(left) > 1 else ""
        ways = f"go on with `scaffold resume {name}`, or end it with `scaffold cancel {name}`"
        click.echo(f"note: run {name} was interrupted{more}: {ways}", err=True)


def tell_result(site: Site, run_id: RunId, *, as_json: bool) -> None:
    """Print the line that ends what programs read; nothing for people."""
    if as_json:
        click.echo(msgspec.json.encode({"type": "result", "run": snapshot(site, known_run(site.store, run_id))["run"]}))


def _let_go(site: Site, run_id: RunId) -> None:
    """Let another process take a run that this one may own."""
    run = known_run(site.store, run_id)
    if run.owner is not None:
        with owned(site.store, run):
            site.store.runs.release(run_id, fence=run.fence)
