"""`resume`: continue an interrupted or paused run."""

from contextlib import closing
from typing import Any

import click
from msgspec import structs

from scaffold.cli.commands.run.control import resume_goal
from scaffold.cli.commands.run.execution_options import flags_of, shared_options
from scaffold.cli.execution.flow import continue_run
from scaffold.cli.execution.foreground import finish
from scaffold.cli.execution.unconfined import agreed_to_resume
from scaffold.cli.exit_codes import FAILED, OK
from scaffold.cli.render.live.work_line import WorkLine
from scaffold.cli.render.terminal.text_layout import print_text
from scaffold.cli.wiring import context_if_any, open_context
from scaffold.config.permission_settings import detect_sandbox_level
from scaffold.config.run.effective_settings import RunFlags, resume_settings, resumed_taking
from scaffold.config.run.spending_limits import REPLACED
from scaffold.core.errors import BudgetExceeded, ScaffoldError, UsageError
from scaffold.core.model import Activity, Goal, Run
from scaffold.core.run_settings import RunSettings, SandboxSettings
from scaffold.core.states import INTERRUPTED, Completed, Failed, Paused, Saved, status_of
from scaffold.host.process.async_runner import run_async
from scaffold.landing.taking.land import settle_moves
from scaffold.orchestrator.owner.run_lease import require_run, take_over_run_when_free
from scaffold.orchestrator.user_control.execution_control import withdraw_pause
from scaffold.orchestrator.user_control.open_run import reconfigure_run
from scaffold.policy.command_sandbox import require_sandbox
from scaffold.run.context import RunContext
from scaffold.store.spending.run_budget import budget_use
from scaffold.views.changes.taken_work import ordered, read_taken
from scaffold.views.name_lookup import action_if_any, find_other_run, goal_if_any
from scaffold.views.store_reader import (
    display_status,
    find_run,
    interrupted_runs,
    is_executed,
    is_interrupted,
    latest_run,
)

NO_REVIEWS = "note: in the tier {tier} no human reviews the work: what waits for you lands as soon as its checks pass"


@click.command()
@click.argument("name", metavar="[RUN|GOAL]", required=False)
@click.option("--yes", is_flag=True, help="Accepted as in `run`; `resume` has no plan to ask about.")
@click.option("--trust-once", is_flag=True, help="Use this folder's own configuration this time.")
@click.option("--interrupted", is_flag=True, help="In the background, every run that was interrupted, or only RUN.")
@shared_options
def resume(name: str | None, *, interrupted: bool, **options: Any) -> int:
    """Continue RUN, or the latest interrupted or paused run; flags override its settings.

    With GOAL, resume a goal of the latest run that you paused, and continue that run. The work of a completed RUN, or
    of the latest, is taken as --greenfield or --pr ask for, if that was not done at its end.
    """
    flags = flags_of(options)
    return run_async(_resume_interrupted(name, flags) if interrupted else _resume_run(name, flags))


async def _resume_interrupted(name: str | None, flags: RunFlags) -> int:
    async with context_if_any() as context:
        left = () if context is None else interrupted_runs(context)
        if context is None or not left:
            print_text("no run was interrupted", err=True)
            return OK
        wanted = None if name is None else find_run(context, name).id
        code = OK
        for run in (each for each in left if wanted in {None, each.id}):
            try:
                settings = resume_settings(context, run, flags)
                settings = await agreed_to_resume(context, run, settings, once=flags.trust_once)
                reconfigure_run(context, run, settings)
                await continue_run(context, run.id, structs.replace(flags, detach=True))
            except ScaffoldError as error:  # must not keep the others from starting
                print_text(f"run {run.id}: {error.in_full}", err=True)
                code = FAILED
        return code


async def _resume_run(name: str | None, flags: RunFlags) -> int:
    context = await open_context()
    with closing(context.store):
        run, goal = (await _latest_to_resume(context), None) if name is None else _find_target(context, name)
        if goal is not None:
            await resume_goal(context, run, goal)
        if goal is not None and is_executed(run):
            return 0
        if await withdraw_pause(context, run):
            print_text(f"run {run.id} goes on: its pause was withdrawn; `scaffold attach {run.id}` watches it")
            return 0
        run = require_run(context.store, run.id)  # it may have ended while it was asked
        if isinstance(run.state, Completed) and (left := await _with_order(context, run, flags)) is not None:
            return OK if await finish(context, left.id, as_json=flags.as_json) else FAILED
        status = display_status(run)
        if status not in {INTERRUPTED, "paused", "saved", "active"}:
            fix = "Retry it with `scaffold retry`." if status == "failed" else "Start a new run."
            raise UsageError(f"run {run.id} is {status} and cannot be resumed", fix)
        # Before the new settings are stored: a run that cannot execute with them keeps its own.
        require_sandbox(SandboxSettings(mode=flags.sandbox or run.settings.sandbox.mode), await detect_sandbox_level())
        if is_executed(run):
            waits = Activity(label=f"waits for the process that executes run {run.id}")
            async with WorkLine(context.clock, quiet=flags.quiet).during(waits):
                run = await take_over_run_when_free(context, run.id)
        settings = resume_settings(context, run, flags)
        settings = await agreed_to_resume(context, run, settings, once=flags.trust_once)
        _require_budget_left(context, run, settings, flags)
        if run.settings.human_reviews and not settings.human_reviews and not flags.quiet:
            print_text(NO_REVIEWS.format(tier=settings.tier.name), err=True)
        reconfigure_run(context, run, settings)
        return await continue_run(context, run.id, flags)


def _require_budget_left(context: RunContext, run: Run, settings: RunSettings, flags: RunFlags) -> None:
    if settings.limits == run.settings.limits:
        return
    use = budget_use(context.store, structs.replace(run, settings=settings))
    if (reached := use.reached) is not None:
        limit, spent = reached
        what = f"a limit of {limit} would let no request of run {run.id} start ({spent} already)"
        raise BudgetExceeded(what, f"Pass more: `scaffold resume {run.id} {use.more}`.")
    if run.settings.limits.action_tokens and not settings.limits.action_tokens and not flags.quiet:
        print_text(f"note: {REPLACED}", err=True)


async def _with_order(context: RunContext, run: Run, flags: RunFlags) -> Run | None:
    # Flags given now replace what was ordered when the run started.
    taking = resumed_taking(run.settings.taking, flags)
    if taking != run.settings.taking:
        reconfigure_run(context, run, structs.replace(run.settings, taking=taking))
        run = require_run(context.store, run.id)
    if ordered(run) is not None:
        await settle_moves(context, run)  # of a process that was killed
    return run if (await read_taken(context.git, context.store, run)).order else None


def _find_target(context: RunContext, name: str) -> tuple[Run, Goal | None]:
    # A goal of the latest run comes before a run of that name.
    latest = find_run(context, None, part=name)
    goal = goal_if_any(context, latest, name)
    if goal is not None and isinstance(latest.state, Saved):
        raise UsageError(f"run {latest.id} was not started, and its goals neither", _start_saved(latest))
    if goal is None and (action := action_if_any(context, latest, name)) is not None:
        around = context.store.goals.get(action.goal_id)
        fix = f"Resume its goal with `scaffold resume {around.name}`." if around else ""
        raise UsageError(f"`{action.key}` is an action; only runs and goals can be resumed", fix)
    return (find_other_run(context, latest, name), None) if goal is None else (latest, goal)


async def _latest_to_resume(context: RunContext) -> Run:
    for run in context.store.runs.all():
        is_pausing = run.request_to_owner == "pause" and is_executed(run)
        if is_interrupted(run) or (isinstance(run.state, Paused) and not is_executed(run)) or is_pausing:
            return run
    latest = latest_run(context.store)
    if latest and isinstance(latest.state, Completed) and (await read_taken(context.git, context.store, latest)).order:
        return latest
    saved = next((run for run in context.store.runs.all() if isinstance(run.state, Saved)), None)
    executed = " and goes on by itself" if latest and is_executed(latest) else ""
    about = f"the latest, {latest.id}, is {status_of(latest.state)}{executed}" if latest else "there is no run"
    if saved:
        fix = _start_saved(saved)
    elif latest and is_executed(latest):
        fix = f"Follow it with `scaffold attach {latest.id}`."
    elif latest and isinstance(latest.state, Failed):
        fix = f"Retry it with `scaffold retry {latest.id}`."
    else:
        fix = 'Start one with `scaffold run "TASK"`.'
    raise UsageError(f"no run is interrupted or paused: {about}", fix)


def _start_saved(run: Run) -> str:
    return f"Start it with `scaffold resume {run.id}`."
