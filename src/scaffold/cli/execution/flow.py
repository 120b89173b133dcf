"""Continue a run: plan it if it has no plan yet, then execute it here or in the background."""

import sys
from collections.abc import Mapping
from functools import partial
from itertools import chain

import click

from scaffold.agent.model_access import ask_servers
from scaffold.cli.execution.background_start import start_in_background
from scaffold.cli.execution.chosen_executors import executor_lines
from scaffold.cli.execution.foreground import (
    handle_interrupts,
    last_seq_before,
    print_result,
    restore_interrupts,
    run_in_foreground,
    showing_events,
)
from scaffold.cli.execution.report_writer import write_end_report
from scaffold.cli.exit_codes import FAILED, INTERRUPTED, WAITING
from scaffold.cli.render.cost_terms import planning_terms
from scaffold.cli.render.live.event_lines import JsonEventLines
from scaffold.cli.render.live.live_screen import run_screen
from scaffold.cli.render.run_preview import sandbox_summary, stored_preview
from scaffold.cli.render.terminal.style import print_findings
from scaffold.cli.render.terminal.text_layout import layout_for, print_text
from scaffold.cli.render.terminal.text_table import table_lines
from scaffold.config.permission_settings import detect_sandbox_level
from scaffold.config.run.effective_settings import RunFlags
from scaffold.core.errors import PlanInvalid, ScaffoldError
from scaffold.core.ids import RunId
from scaffold.core.printable_text import printable
from scaffold.core.states import reason_of
from scaffold.orchestrator.owner.planning_phase import StopCause, begin_planning
from scaffold.orchestrator.owner.run_lease import require_run, take_over_run_when_free
from scaffold.policy.secret.command_environment import TOLD_VARIABLES, left_out_notice
from scaffold.run.context import RunContext
from scaffold.views.store_reader import interrupted_runs
from scaffold.views.text_format import format_usage

EXIT_CODE_BY_STOP: Mapping[StopCause, int] = {
    "stopped": INTERRUPTED,
    "paused": WAITING,
    "cancelled": FAILED,
    "unavailable": WAITING,
}


async def continue_run(context: RunContext, run_id: RunId, flags: RunFlags) -> int:
    """Continue a run here or in the background; return the exit code."""
    if not flags.detach:
        return await run_to_end(context, run_id, as_json=flags.as_json, quiet=flags.quiet)
    # Taken before it is given away, so that another live process keeps the run that it executes.
    pid = start_in_background(context, await take_over_run_when_free(context, run_id))
    print_text(f"run {run_id} continues in the background, process {pid}", err=flags.as_json)
    print_commands(run_id, err=flags.as_json)
    await print_result(context, run_id, as_json=flags.as_json)
    return 0


def print_commands(run_id: RunId, *, err: bool) -> None:
    """Print how to watch and stop a run that another process executes."""
    row = ("  ", f"watch it: scaffold attach {run_id}", f"stop it: scaffold stop {run_id}")
    click.echo("\n".join(table_lines([row], layout_for(sys.stderr if err else sys.stdout))), err=err)


async def run_to_end(context: RunContext, run_id: RunId, *, as_json: bool = False, quiet: bool = False) -> int:
    """Continue a run until it ends or has to pause; return the exit code. Raises as `ensure_planned` does."""
    if not context.store.goals.for_run(run_id):
        code = await ensure_planned(context, run_id, as_json=as_json, quiet=quiet)
        if code is not None:
            return code
        if not quiet:
            await print_preview(context, run_id)
    return await run_in_foreground(context, run_id, as_json=as_json, quiet=quiet)


async def ensure_planned(
    context: RunContext, run_id: RunId, *, as_json: bool = False, quiet: bool = False
) -> int | None:
    """Plan a run if it has no plan; return None, or the exit code if planning was stopped.

    Raises as `PlanningPhase.run_to_end` does; JSON output ends with the result in every case.
    """
    if context.store.goals.for_run(run_id):
        return None
    try:
        code = await run_planning(context, run_id, as_json=as_json, quiet=quiet)
    except ScaffoldError:
        await write_end_report(context, run_id)
        await print_result(context, run_id, as_json=as_json)
        raise
    if code is not None:
        await write_end_report(context, run_id)
        await print_result(context, run_id, as_json=as_json)
    return code


async def print_preview(context: RunContext, run_id: RunId) -> None:
    """Print what a planned run will do, with which settings and which sandbox, on standard error."""
    run = require_run(context.store, run_id)
    layout = layout_for(sys.stderr)
    sandbox = layout.prose("", sandbox_summary(await detect_sandbox_level(), run.settings), hang=2)
    used = [name for each in run.settings.models for name in (each.name, *each.others)]
    told = [f"model server {name}: {facts.text}" for name, facts in (await ask_servers(used)).items()]
    servers = chain.from_iterable(layout.prose("", line, hang=2) for line in told)
    programs = chain.from_iterable(
        layout.prose("", line, hang=2) for line in executor_lines(run.settings, context.environ)
    )
    lines = [stored_preview(context.store, run).text(layout), *sandbox, *servers, *programs]
    click.echo("\n".join(lines), err=True)
    names = run.settings.environment.variables
    if notice := left_out_notice(context.environ, names, told=context.cache / TOLD_VARIABLES):
        print_text(notice, err=True)


def warn_interrupted(context: RunContext) -> None:
    """Print a note about interrupted runs, and what to do about the latest, on standard error."""
    left = interrupted_runs(context)
    if left:
        name, more = left[0].id, f" and {len(left) - 1} more" if len(left) > 1 else ""
        hint = f"continue with `scaffold resume {name}`, or end it with `scaffold cancel {name}`"
        print_text(f"note: run {name} was interrupted{more}: {hint}", err=True)


async def run_planning(
    context: RunContext,
    run_id: RunId,
    *,
    as_json: bool = False,
    quiet: bool = False,
    err: bool = False,
    capture_baseline: bool = True,
) -> int | None:
    """Plan a run and return None, or the exit code if planning was stopped.

    Progress goes to standard error with `err`. Raises as `PlanningPhase.run_to_end` does, after printing findings.
    """
    since = last_seq_before(context, run_id)
    if not quiet:
        print_text(planning_terms(require_run(context.store, run_id).settings, context.clock.now()), err=True)

    def show_step(text: str) -> None:
        if not (as_json or quiet):
            click.echo(f"          {printable(text)}", err=err)

    phase = await begin_planning(context, run_id, show_step=show_step, capture_baseline=capture_baseline)
    try:
        handle_interrupts(partial(phase.stop, "stopped"))
        sink = JsonEventLines() if as_json else run_screen(context, phase.run, quiet=quiet, err=err)
        async with showing_events(context, phase.run, sink, since=since):
            stopped = await phase.run_to_end()
    except PlanInvalid as invalid:
        print_findings(invalid.findings, "plan")
        raise
    finally:
        restore_interrupts()
    if stopped is not None:
        print_text(_stopped_note(context, run_id, stopped), err=True)
        return EXIT_CODE_BY_STOP[stopped]
    if not (as_json or quiet):
        spent = format_usage(context.store.runs.spent(run_id))
        print_text(f"planned by {phase.run.settings.agent_model('planner').name}: {spent}", err=True)
    return None


def _stopped_note(context: RunContext, run_id: RunId, stopped: StopCause) -> str:
    if context.store.goals.for_run(run_id):
        return f"{stopped} with its plan; `scaffold resume {run_id}` starts it"
    why = reason_of(require_run(context.store, run_id).state) if stopped == "unavailable" else stopped
    again = "" if stopped == "cancelled" else f"; `scaffold resume {run_id}` plans again"
    return f"{why} before there was a plan{again}"
