"""Carrying a run out from the command line: signals, progress, the report, the exit code."""

import asyncio
import os
import signal
import sys
from functools import partial

import click
import msgspec

from scaffold.cli.live import LiveScreen
from scaffold.cli.models import opened_model
from scaffold.cli.progress import JsonLines, PlainLines, Sink, follow
from scaffold.cli.report import report
from scaffold.cli.snapshot import snapshot
from scaffold.cli.wiring import processes_of
from scaffold.core.errors import UsageProblem
from scaffold.core.ids import GoalId, RunId
from scaffold.core.model import Run
from scaffold.core.states import Cancelled, Completed, Failed
from scaffold.host.sandbox.ground import is_stand_in
from scaffold.orchestrator.conduct import Conductor, Ending, conduct
from scaffold.orchestrator.engine import Engine
from scaffold.orchestrator.local import LocalEngine
from scaffold.orchestrator.notify import notify_on
from scaffold.orchestrator.processes import Processes, WarmProcesses
from scaffold.orchestrator.projections import project
from scaffold.orchestrator.pursuit import pursue
from scaffold.orchestrator.takeover import take_over_when_free
from scaffold.orchestrator.thinking import Thinker
from scaffold.worker.site import Site

INTERRUPTED = 130
EXIT_OF_CAUSE = {"limit": 2, "held": 3, "paused": 3, "waiting": 3, "stopped": INTERRUPTED, "cancelled": 1}


async def drive(site: Site, run_id: RunId, *, as_json: bool = False) -> int:
    """Carry a run on to its end, or to where it has to be put down; return the exit code."""
    run = await take_over_when_free(site, run_id)
    since = max(0, site.store.events.last_seq(run.id) - 1) if run.fence > 1 else 0
    _project(site, run)
    processes = processes_of(site, run)
    try:
        if isinstance(processes, WarmProcesses):
            await processes.warm()
        sink = _sink(site, run, as_json=as_json)
        ending = await _carried_out(site, run, _engine(site, run, processes), sink=sink, since=since)
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
    finished = False
    with_signals(conductor)
    follower = asyncio.create_task(follow(site, run, sink, since=since, done=lambda: finished))
    notifier = asyncio.create_task(notify_on(site, run, run.settings.notify, lambda: finished))
    try:
        return await conductor.carry_out()
    finally:
        finished = True
        await follower
        await notifier


def with_signals(conductor: Conductor) -> None:
    """Let the first interrupt end the run in good order, and the second one at once."""
    loop = asyncio.get_running_loop()
    seen = 0

    def on_signal() -> None:
        nonlocal seen
        seen += 1
        if seen > 1:
            # Workers and checks hang on pipes that break with this process: they are gone a moment later.
            os._exit(INTERRUPTED)
        conductor.leave("stopped")
        click.echo("\nstopping: nothing new starts, unfinished work is pinned (once more: stop at once)", err=True)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, on_signal)


def exit_code(ending: Ending) -> int:
    """Return 0 landed, 1 failed or cancelled, 2 limit, 3 a human is needed, 130 stopped."""
    match ending.state:
        case Completed():
            return 0
        case Failed() | Cancelled():
            return 1
        case _:
            return EXIT_OF_CAUSE[ending.cause]


def _sink(site: Site, run: Run, *, as_json: bool) -> Sink:
    if as_json:
        return JsonLines()
    return LiveScreen(site, run) if sys.stdout.isatty() else PlainLines()


def _told(site: Site, run: Run, ending: Ending, *, as_json: bool) -> int:
    now = site.store.runs.get(run.id)
    if now is None:
        raise UsageProblem(f"run {run.id} has vanished from the store", "Was the database deleted? Start anew.")
    if as_json:
        click.echo(msgspec.json.encode({"type": "result", "run": snapshot(site, now)["run"]}))
    else:
        click.echo(report(site, now))
    return exit_code(ending)


def _project(site: Site, run: Run) -> None:
    try:
        project(site, run)
    except OSError as error:
        busy = is_stand_in(site.projections)
        why = "a command in a sandbox keeps it closed just now" if busy else error.strerror
        click.echo(f"note: {site.projections} cannot be written ({why}); the run goes on without it", err=True)
