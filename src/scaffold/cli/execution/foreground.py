"""Carrying a run out from the command line: signals, progress, the report, the exit code."""

from collections.abc import Mapping
from functools import partial

import click
import msgspec

from scaffold.agent.model_access import connect_model
from scaffold.cli.execution.event_tail import last_seq_before, showing_events
from scaffold.cli.execution.interrupts import handle_interrupts
from scaffold.cli.exit_codes import FAILED, INTERRUPTED, LIMIT, OK, WAITING
from scaffold.cli.render.live_screen import event_sink_for
from scaffold.cli.render.report import report
from scaffold.cli.wiring import processes_of
from scaffold.core.errors import EnvironmentNotReady, UsageError
from scaffold.core.ids import GoalId, RunId
from scaffold.core.model import Run
from scaffold.core.states import Cancelled, Completed, Failed
from scaffold.host.process.gc_tuning import relax_gc
from scaffold.host.sandbox.mounts import is_placeholder
from scaffold.orchestrator.owner.engine import Engine
from scaffold.orchestrator.owner.local_engine import LocalEngine
from scaffold.orchestrator.owner.processes import ProcessStarter, ZygoteProcessStarter
from scaffold.orchestrator.owner.run_lease import require_run, take_over_run_when_free
from scaffold.orchestrator.owner.run_loop import EndCause, RunEnding, RunOwner, recover_run_owner
from scaffold.orchestrator.planning.supervisor_agent import SupervisorAgent
from scaffold.orchestrator.supervisor.process import supervise_goal
from scaffold.orchestrator.upkeep.projections import write_projections
from scaffold.run.context import RunContext
from scaffold.views.event_tail import EventSink
from scaffold.views.run_json import run_json

EXIT_CODE_BY_CAUSE: Mapping[EndCause, int] = {
    "limit": LIMIT,
    "held": WAITING,
    "paused": WAITING,
    "waiting": WAITING,
    "stopped": INTERRUPTED,
    "cancelled": FAILED,
}
"""What it means to a script that a run was put down; `done` is for its state to say."""


async def run_in_foreground(site: RunContext, run_id: RunId, *, as_json: bool = False) -> int:
    """Carry a run on to its end, or to where it has to be put down; return the exit code."""
    relax_gc()
    run = await take_over_run_when_free(site, run_id)
    since = last_seq_before(site, run)
    _write_projections(site, run)
    processes = processes_of(site, run)
    try:
        if isinstance(processes, ZygoteProcessStarter):
            await processes.preload()
        sink = event_sink_for(site, run, as_json=as_json)
        ending = await _run_owner(site, run, _engine(site, run, processes), sink=sink, since=since)
    except EnvironmentNotReady:
        _print_json_result(site, run, as_json=as_json)
        raise
    finally:
        await processes.close()
    return _print_end(site, run, ending, as_json=as_json)


def _engine(site: RunContext, run: Run, processes: ProcessStarter) -> Engine:
    """Return an engine with a process for each goal; a task of the tier `quick` is too little for one."""
    if run.settings.tier != "quick" or run.settings.planner:
        return LocalEngine(processes)
    thinks = SupervisorAgent(site, run, partial(connect_model, run.settings.model))

    async def here(goal: GoalId) -> int:
        return await supervise_goal(site, run, goal, thinks)

    return LocalEngine(processes, here=here)


async def _run_owner(site: RunContext, run: Run, engine: Engine, *, sink: EventSink, since: int) -> RunEnding:
    """Carry a run out while `sink` is told what happens from the event after `since` on."""
    conductor = await recover_run_owner(site, run, engine)
    handle_interrupts(partial(_stop, conductor))
    async with showing_events(site, run, sink, since=since):
        return await conductor.carry_out()


def _stop(conductor: RunOwner) -> None:
    conductor.request_stop("stopped")
    click.echo("\nstopping: nothing new starts, unfinished work is pinned (once more: stop at once)", err=True)


def exit_code_of(ending: RunEnding) -> int:
    """Return the exit code for how a run was left."""
    match ending.state:
        case Completed():
            return OK
        case Failed() | Cancelled():
            return FAILED
        case _:
            return EXIT_CODE_BY_CAUSE[ending.cause]


def _print_end(site: RunContext, run: Run, ending: RunEnding, *, as_json: bool) -> int:
    now = site.store.runs.get(run.id)
    if now is None:
        raise UsageError(f"run {run.id} has vanished from the store", "Was the database deleted? Start anew.")
    if not as_json:
        click.echo(report(site, now))
    _print_json_result(site, now, as_json=as_json)
    return exit_code_of(ending)


def _print_json_result(site: RunContext, run: Run, *, as_json: bool) -> None:
    """Print the line that ends what programs read."""
    if as_json:
        shown = run_json(site, require_run(site.store, run.id))["run"]
        click.echo(msgspec.json.encode({"type": "result", "run": shown}))


def _write_projections(site: RunContext, run: Run) -> None:
    try:
        write_projections(site, run)
    except OSError as error:
        busy = is_placeholder(site.projections)
        why = "a command in a sandbox keeps it closed just now" if busy else error.strerror
        click.echo(f"note: {site.projections} cannot be written ({why}); the run goes on without it", err=True)
