"""Carrying a run out from the command line: signals, progress, the report, the exit code."""

from collections.abc import Mapping
from functools import partial

import click
import msgspec

from scaffold.cli.exits import FAILED, INTERRUPTED, LIMIT, OK, WAITS
from scaffold.cli.following import begins_after, followed
from scaffold.cli.interrupts import heed_interrupts
from scaffold.cli.live import sink_for
from scaffold.cli.models import opened_model
from scaffold.cli.progress import Sink
from scaffold.cli.report import report
from scaffold.cli.snapshot import snapshot
from scaffold.cli.wiring import processes_of
from scaffold.core.errors import EnvironmentNotReady, UsageProblem
from scaffold.core.ids import GoalId, RunId
from scaffold.core.model import Run
from scaffold.core.states import Cancelled, Completed, Failed
from scaffold.host.collector import calm_down
from scaffold.host.sandbox.ground import is_stand_in
from scaffold.orchestrator.conduct import Cause, Conductor, Ending, conduct
from scaffold.orchestrator.engine import Engine
from scaffold.orchestrator.local import LocalEngine
from scaffold.orchestrator.processes import Processes, WarmProcesses
from scaffold.orchestrator.projections import project
from scaffold.orchestrator.pursuit import pursue
from scaffold.orchestrator.takeover import known_run, take_over_when_free
from scaffold.orchestrator.thinking import Thinker
from scaffold.worker.site import Site

CODE_OF_CAUSE: Mapping[Cause, int] = {
    "limit": LIMIT,
    "held": WAITS,
    "paused": WAITS,
    "waiting": WAITS,
    "stopped": INTERRUPTED,
    "cancelled": FAILED,
}
"""What it means to a script that a run was put down; `done` is for its state to say."""


async def drive(site: Site, run_id: RunId, *, as_json: bool = False) -> int:
    """Carry a run on to its end, or to where it has to be put down; return the exit code."""
    calm_down()
    run = await take_over_when_free(site, run_id)
    since = begins_after(site, run)
    _project(site, run)
    processes = processes_of(site, run)
    try:
        if isinstance(processes, WarmProcesses):
            await processes.warm()
        sink = sink_for(site, run, as_json=as_json)
        ending = await _carried_out(site, run, _engine(site, run, processes), sink=sink, since=since)
    except EnvironmentNotReady:
        _told_as_json(site, run, as_json=as_json)
        raise
    finally:
        await processes.close()
    return _told(site, run, ending, as_json=as_json)


def _engine(site: Site, run: Run, processes: Processes) -> Engine:
    """Return an engine with a process for each goal; a task of the tier `quick` is too little for one."""
    if run.settings.tier != "quick" or run.settings.planner:
        return LocalEngine(processes)
    thinks = Thinker(site, run, partial(opened_model, run.settings.model))

    async def here(goal: GoalId) -> int:
        return await pursue(site, run, goal, thinks)

    return LocalEngine(processes, here=here)


async def _carried_out(site: Site, run: Run, engine: Engine, *, sink: Sink, since: int) -> Ending:
    """Carry a run out while `sink` is told what happens from the event after `since` on."""
    conductor = await conduct(site, run, engine)
    heed_interrupts(partial(_put_down, conductor))
    async with followed(site, run, sink, since=since):
        return await conductor.carry_out()


def _put_down(conductor: Conductor) -> None:
    conductor.leave("stopped")
    click.echo("\nstopping: nothing new starts, unfinished work is pinned (once more: stop at once)", err=True)


def code_of(ending: Ending) -> int:
    """Return the exit code for how a run was left."""
    match ending.state:
        case Completed():
            return OK
        case Failed() | Cancelled():
            return FAILED
        case _:
            return CODE_OF_CAUSE[ending.cause]


def _told(site: Site, run: Run, ending: Ending, *, as_json: bool) -> int:
    now = site.store.runs.get(run.id)
    if now is None:
        raise UsageProblem(f"run {run.id} has vanished from the store", "Was the database deleted? Start anew.")
    if not as_json:
        click.echo(report(site, now))
    _told_as_json(site, now, as_json=as_json)
    return code_of(ending)


def _told_as_json(site: Site, run: Run, *, as_json: bool) -> None:
    """Print the line that ends what programs read."""
    if as_json:
        shown = snapshot(site, known_run(site.store, run.id))["run"]
        click.echo(msgspec.json.encode({"type": "result", "run": shown}))


def _project(site: Site, run: Run) -> None:
    try:
        project(site, run)
    except OSError as error:
        busy = is_stand_in(site.projections)
        why = "a command in a sandbox keeps it closed just now" if busy else error.strerror
        click.echo(f"note: {site.projections} cannot be written ({why}); the run goes on without it", err=True)
