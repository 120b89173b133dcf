"""`attach`: watch a run that another process executes."""

from collections.abc import Mapping

import click

from scaffold.cli.commands.options import json_option
from scaffold.cli.execution.foreground import print_result
from scaffold.cli.exit_codes import FAILED, INTERRUPTED, LIMIT, OK, WAITING
from scaffold.cli.render.live_screen import event_sink_for
from scaffold.cli.render.report import report
from scaffold.cli.wiring import open_context
from scaffold.core import states
from scaffold.core.errors import ScaffoldError
from scaffold.core.model import Run
from scaffold.core.states import Cancelled, Completed, Failed, reason_of
from scaffold.host.process.async_runner import run_async
from scaffold.orchestrator.owner.run_end import PAUSE_REASONS
from scaffold.orchestrator.owner.run_lease import require_run
from scaffold.run.context import RunContext
from scaffold.views.event_tail import tail_events
from scaffold.views.run_view import read_run_view
from scaffold.views.store_reader import display_status, find_run, is_executed

EXIT_CODE_BY_PAUSE: Mapping[str | None, int] = {PAUSE_REASONS["limit"]: LIMIT, PAUSE_REASONS["stopped"]: INTERRUPTED}
"""Exit codes by pause reason; every other pause waits for a human."""


@click.command()
@click.argument("run_name", metavar="[RUN]", required=False)
@json_option
def attach(run_name: str | None, *, as_json: bool) -> int:
    """Watch RUN (default: the latest) until it ends, and exit with its code.

    Ctrl-C stops watching; the run continues.
    """
    try:
        return run_async(_attach(run_name, as_json=as_json))
    except KeyboardInterrupt:
        click.echo("\nstopped watching; the run continues, `scaffold stop` stops it", err=True)
        return OK


async def _attach(name: str | None, *, as_json: bool) -> int:
    context = await open_context()
    try:
        run = find_run(context, name)
        await tail_events(
            context, run, event_sink_for(context, run, as_json=as_json), since=0, done=lambda: _has_ended(context, run)
        )
        return _print_end(context, require_run(context.store, run.id), as_json=as_json)
    finally:
        context.store.close()


def _has_ended(context: RunContext, run: Run) -> bool:
    """Return whether no process executes the run any more; its final state is stored before its owner releases it."""
    return not is_executed(require_run(context.store, run.id))


def _print_end(context: RunContext, run: Run, *, as_json: bool) -> int:
    print_result(context, run.id, as_json=as_json)
    if display_status(run) == states.INTERRUPTED:
        raise ScaffoldError(
            f"run {run.id} was interrupted: no process is executing it", f"Continue with `scaffold resume {run.id}`."
        )
    if not as_json:
        click.echo(report(read_run_view(context, run), context.repository.root))
    match run.state:
        case Completed():
            return OK
        case Failed() | Cancelled():
            return FAILED
        case state:
            return EXIT_CODE_BY_PAUSE.get(reason_of(state), WAITING)
