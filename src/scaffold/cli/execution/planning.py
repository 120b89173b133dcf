"""Plan a run at the command line: progress, signals, findings, the exit code."""

from collections.abc import Mapping
from functools import partial

import click

from scaffold.cli.execution.event_tail import last_seq_before, showing_events
from scaffold.cli.execution.interrupts import handle_interrupts, restore_interrupts
from scaffold.cli.exit_codes import FAILED, INTERRUPTED, WAITING
from scaffold.cli.render.progress import JsonEventLines, TextEventLines
from scaffold.cli.render.style import print_findings
from scaffold.core.errors import PlanInvalid
from scaffold.core.ids import RunId
from scaffold.core.printable_text import printable
from scaffold.orchestrator.owner.planning_phase import ShowStep, StopCause, begin_planning
from scaffold.run.context import RunContext
from scaffold.session.slash_queries import format_usage

EXIT_CODE_BY_STOP: Mapping[StopCause, int] = {"stopped": INTERRUPTED, "paused": WAITING, "cancelled": FAILED}


async def run_planning(
    context: RunContext, run_id: RunId, *, as_json: bool = False, err: bool = False, capture_baseline: bool = True
) -> int | None:
    """Plan a run and return None, or the exit code if planning was stopped.

    Progress goes to standard error with `err`. Raises as `PlanningPhase.run_to_end` does, after printing findings.
    """
    since = last_seq_before(context, run_id)
    show_step = _ignore_step if as_json else _step_printer(err=err)
    phase = await begin_planning(context, run_id, show_step=show_step, capture_baseline=capture_baseline)
    sink = JsonEventLines() if as_json else TextEventLines(err=err)
    try:
        handle_interrupts(partial(phase.stop, "stopped"))
        async with showing_events(context, phase.run, sink, since=since):
            stopped = await phase.run_to_end()
    except PlanInvalid as invalid:
        print_findings(invalid.findings, "plan")
        raise
    finally:
        restore_interrupts()
    if stopped is not None:
        click.echo(f"{stopped} before there was a plan; `scaffold resume {run_id}` plans again", err=True)
        return EXIT_CODE_BY_STOP[stopped]
    if not as_json:
        click.echo(
            f"planned by {phase.run.settings.model.name}: {format_usage(context.store.runs.spent(run_id))}", err=True
        )
    return None


def _step_printer(*, err: bool) -> ShowStep:
    return lambda text: click.echo(f"          {printable(text)}", err=err)


def _ignore_step(text: str) -> None:
    """Print nothing: the output is JSON."""
