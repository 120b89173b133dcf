"""Follow a run that another process executes, and end with its exit code."""

import sys
from collections.abc import Callable, Mapping

import click

from scaffold.cli.execution.asking_screen import event_sink_for
from scaffold.cli.execution.foreground import print_result
from scaffold.cli.exit_codes import FAILED, INTERRUPTED, INVALID, LIMIT, OK, WAITING
from scaffold.cli.render.report import report
from scaffold.cli.render.terminal.text_layout import layout_for
from scaffold.core.model import Run
from scaffold.core.states import Cancelled, Completed, Failed, reason_of
from scaffold.host.process_identity import is_alive
from scaffold.orchestrator.owner.run_end import PAUSE_REASONS
from scaffold.orchestrator.owner.run_lease import require_run
from scaffold.run.context import RunContext
from scaffold.views.changes.taken_work import with_taken
from scaffold.views.event_tail import tail_events
from scaffold.views.report_file import find_report
from scaffold.views.run_view import read_run_view
from scaffold.views.store_reader import is_executed

EXIT_CODE_BY_PAUSE: Mapping[str | None, int] = {PAUSE_REASONS["limit"]: LIMIT, PAUSE_REASONS["stopped"]: INTERRUPTED}
"""Exit codes by pause reason; every other pause waits for a human."""
STOPPED_WATCHING = "\nstopped watching; the run continues, `scaffold stop` stops it"


def keep_watching() -> bool:
    """Return False: only the end of the run ends the watching."""
    return False


async def watch_run(
    context: RunContext, run: Run, *, as_json: bool, quiet: bool = False, is_enough: Callable[[], bool] = keep_watching
) -> Run:
    """Show the run's events until no process executes it any more, or `is_enough`; return it as it is then."""
    await tail_events(
        context,
        run,
        event_sink_for(context, run, as_json=as_json, quiet=quiet),
        since=0,
        done=lambda: is_enough() or _has_ended(context, run),
    )
    return require_run(context.store, run.id)


def _has_ended(context: RunContext, run: Run) -> bool:
    """Return whether no process executes the run any more, nor owns it."""
    # Its final state is stored before its owner releases it; and one that held the run is about to go on with it.
    now = require_run(context.store, run.id)
    return not is_executed(now) and (now.owner is None or not is_alive(now.owner))


async def print_end(context: RunContext, run: Run, *, as_json: bool) -> int:
    """Print the report of a run that was not interrupted; return the exit code that its owner ended with."""
    await print_result(context, run.id, as_json=as_json)
    if not as_json:
        page = find_report(context.repository.root, run.id)
        view = await with_taken(context.git, context.store, read_run_view(context, run))
        click.echo(report(view, context.repository.root, layout_for(sys.stdout), page))
    match run.state:
        case Completed():
            return OK
        case Failed():
            turns = context.store.turns.of_run(run.id)
            is_rejected = bool(turns) and turns[-1].outcome == "refused" and not context.store.goals.of_run(run.id)
            return INVALID if is_rejected else FAILED
        case Cancelled():
            return FAILED
        case state:
            return EXIT_CODE_BY_PAUSE.get(reason_of(state), WAITING)
