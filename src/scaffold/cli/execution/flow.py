"""Continue a run: plan it if it has no plan yet, then execute it here or in the background."""

import click

from scaffold.cli.execution.background_start import start_in_background
from scaffold.cli.execution.foreground import print_result, run_in_foreground
from scaffold.cli.execution.planning import run_planning
from scaffold.cli.render.run_preview import RunPreview, sandbox_summary
from scaffold.config.permissions import detect_sandbox_level
from scaffold.config.run_settings import RunFlags
from scaffold.core.errors import ScaffoldError
from scaffold.core.ids import RunId
from scaffold.orchestrator.owner.run_lease import release_run, require_run
from scaffold.orchestrator.planning.apply_plan import stored_plan
from scaffold.run.context import RunContext
from scaffold.views.store_reader import interrupted_runs


async def continue_run(context: RunContext, run_id: RunId, flags: RunFlags) -> int:
    """Continue a run here or in the background; return the exit code."""
    if not flags.detach:
        return await run_to_end(context, run_id, as_json=flags.as_json)
    run = require_run(context.store, run_id)
    if run.owner is not None:
        release_run(context.store, run)
    pid = start_in_background(context, run_id)
    click.echo(f"run {run_id} continues in the background, process {pid}", err=flags.as_json)
    click.echo(f"  watch it: scaffold attach {run_id}    stop it: scaffold stop {run_id}", err=flags.as_json)
    print_result(context, run_id, as_json=flags.as_json)
    return 0


async def run_to_end(context: RunContext, run_id: RunId, *, as_json: bool = False) -> int:
    """Continue a run until it ends or has to pause; return the exit code. Raises as `ensure_planned` does."""
    if not context.store.goals.of_run(run_id):
        code = await ensure_planned(context, run_id, as_json=as_json)
        if code is not None:
            return code
        await print_preview(context, run_id)
    return await run_in_foreground(context, run_id, as_json=as_json)


async def ensure_planned(context: RunContext, run_id: RunId, *, as_json: bool = False) -> int | None:
    """Plan a run if it has no plan; return None, or the exit code if planning was stopped.

    Raises as `PlanningPhase.run_to_end` does; JSON output ends with the result in every case.
    """
    if context.store.goals.of_run(run_id):
        return None
    try:
        code = await run_planning(context, run_id, as_json=as_json)
    except ScaffoldError:
        print_result(context, run_id, as_json=as_json)
        raise
    if code is not None:
        print_result(context, run_id, as_json=as_json)
    return code


async def print_preview(context: RunContext, run_id: RunId) -> None:
    """Print what a planned run will do, with which settings and which sandbox, on standard error."""
    run = require_run(context.store, run_id)
    click.echo(
        f"{RunPreview(run, stored_plan(context.store, run)).text()}\n"
        f"{sandbox_summary(await detect_sandbox_level(), run.settings)}",
        err=True,
    )


def warn_interrupted(context: RunContext) -> None:
    """Print a note about interrupted runs, and what to do about the latest, on standard error."""
    left = interrupted_runs(context)
    if left:
        name, more = left[0].id, f" and {len(left) - 1} more" if len(left) > 1 else ""
        ways = f"continue with `scaffold resume {name}`, or end it with `scaffold cancel {name}`"
        click.echo(f"note: run {name} was interrupted{more}: {ways}", err=True)
