"""`attach`: watching a run that another process carries out, to its end."""

from collections.abc import Mapping

import click

from scaffold.cli.carry import tell_result
from scaffold.cli.exits import FAILED, INTERRUPTED, LIMIT, OK, WAITS
from scaffold.cli.live import sink_for
from scaffold.cli.picture import GOING_ON
from scaffold.cli.progress import follow
from scaffold.cli.reader import find_run, shown_status
from scaffold.cli.report import report
from scaffold.cli.screen import json_option
from scaffold.cli.wiring import open_site
from scaffold.core.errors import ScaffoldError
from scaffold.core.model import Run
from scaffold.core.states import INTERRUPTED as LEFT_ALONE
from scaffold.core.states import Cancelled, Completed, Failed, reason_of
from scaffold.host.loop import run_async
from scaffold.orchestrator.ending import PAUSE_REASONS
from scaffold.orchestrator.takeover import known_run
from scaffold.worker.site import Site

CODE_OF_PAUSE: Mapping[str | None, int] = {PAUSE_REASONS["limit"]: LIMIT, PAUSE_REASONS["stopped"]: INTERRUPTED}
"""What a pause means to a script; every other one waits for a human."""


@click.command()
@click.argument("run_name", metavar="[RUN]", required=False)
@json_option
def attach(run_name: str | None, *, as_json: bool) -> int:
    """Watch RUN (the latest without an argument) until it ends, and end as it does.

    Ctrl-C leaves the run alone and ends the watching.
    """
    try:
        return run_async(_attach(run_name, as_json=as_json))
    except KeyboardInterrupt:
        click.echo("\nwatching no longer; the run goes on, `scaffold stop` stops it", err=True)
        return OK


async def _attach(name: str | None, *, as_json: bool) -> int:
    site = await open_site()
    try:
        run = find_run(site, name)
        await follow(site, run, sink_for(site, run, as_json=as_json), since=0, done=lambda: _over(site, run))
        return _told(site, known_run(site.store, run.id), as_json=as_json)
    finally:
        site.store.close()


def _over(site: Site, run: Run) -> bool:
    """Tell whether nobody carries the run out any more; what a run came to is stored before its owner lets go."""
    return shown_status(known_run(site.store, run.id)) not in GOING_ON


def _told(site: Site, run: Run, *, as_json: bool) -> int:
    tell_result(site, run.id, as_json=as_json)
    if shown_status(run) == LEFT_ALONE:
        raise ScaffoldError(
            f"run {run.id} was interrupted: nobody carries it out", f"Go on with `scaffold resume {run.id}`."
        )
    if not as_json:
        click.echo(report(site, run))
    match run.state:
        case Completed():
            return OK
        case Failed() | Cancelled():
            return FAILED
        case state:
            return CODE_OF_PAUSE.get(reason_of(state), WAITS)
