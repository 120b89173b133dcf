"""`attach`, `stop`, `pause`, `cancel`, `retry`: watch and control a run, a goal or an action."""

from collections.abc import Mapping

import click

from scaffold.cli.commands.options import json_option, quiet_option
from scaffold.cli.execution.foreground import STOPPED_WATCHING, print_end, print_result, watch_run
from scaffold.cli.execution.report_writer import write_end_report
from scaffold.cli.exit_codes import OK
from scaffold.cli.render.live.watch_view import print_changes
from scaffold.cli.render.live.work_line import WorkLine
from scaffold.cli.render.terminal.text_layout import print_text
from scaffold.cli.wiring import context_with_run
from scaffold.core.errors import ScaffoldError, UsageError
from scaffold.core.model import Activity, Goal, HaltRequest, Run
from scaffold.core.states import INTERRUPTED, Cancelled, GoalState, Paused, RunState, Saved, reason_of, status_of
from scaffold.host.process.async_runner import run_async
from scaffold.orchestrator.owner.run_files import write_run_files
from scaffold.orchestrator.user_control.execution_control import (
    halt_run,
    request_action_stop,
    request_goal_control,
    retry_action,
    retry_goal,
    retry_run,
    stopped_for_good,
)
from scaffold.run.context import RunContext
from scaffold.views.name_lookup import action_if_any, find_other_run, goal_if_any
from scaffold.views.run_view import read_summary
from scaffold.views.state_labels import ENDING
from scaffold.views.store_reader import display_status, is_executed

RECENT_EVENTS = 100  # shown by `attach` of those before it; most are for machines, and not shown at all
STOP_TIMEOUT_S = 30.0
PAUSE_TIMEOUT_S = 2.0  # running work may take hours and is not waited for; without any, the run has paused by then
PAST: Mapping[HaltRequest, str] = {"stop": "stopped", "pause": "paused", "cancel": "cancelled"}
goal_run_option = click.option("--run", "run_name", metavar="RUN", help="The run of the goal; default: the latest.")
target_run_option = click.option(
    "--run", "run_name", metavar="RUN", help="The run of the goal or action; default: the latest."
)


@click.command()
@click.argument("target", metavar="[RUN|GOAL|ACTION]", required=False)
@target_run_option
def stop(target: str | None, run_name: str | None) -> None:
    """Stop a run (default: the latest) or a goal cleanly, or cancel an action.

    Running work ends at once and is pinned. Continue a run with `scaffold resume`, a goal with `scaffold resume GOAL`.
    A stopped action is cancelled; the rest of its goal continues without it.
    """
    run_async(_control_target(target, run_name, "stop"))


@click.command()
@click.argument("target", metavar="[RUN|GOAL]", required=False)
@goal_run_option
def pause(target: str | None, run_name: str | None) -> None:
    """Start nothing new in a run (default: the latest) or a goal; running work finishes and lands."""
    run_async(_control_target(target, run_name, "pause"))


@click.command()
@click.argument("target", metavar="[RUN|GOAL]", required=False)
@goal_run_option
def cancel(target: str | None, run_name: str | None) -> None:
    """End a run (default: the latest) or a goal for good; landed work stays, other work stays pinned."""
    run_async(_control_target(target, run_name, "cancel"))


async def _control_target(name: str | None, run_name: str | None, request: HaltRequest) -> None:
    # Looked up as an action, a goal, a run, in this order: a mistake then hits the smaller one.
    async with context_with_run(run_name, "any" if request == "cancel" else "started", part=name) as (context, run):
        if name is None:
            await _halt_run(context, run, request)
        elif (action := action_if_any(context, run, name)) is not None:
            if request != "stop":
                fix = f"End it for good with `scaffold stop {action.key}`, or {request} its goal."
                raise UsageError(f"`{action.key}` is an action; only runs and goals can be {PAST[request]}", fix)
            status = status_of((await request_action_stop(context, run, action)).state)
            print_text(f"action {action.key} is {status}; its unfinished work is pinned: `scaffold salvage`")
        elif (goal := goal_if_any(context, run, name)) is not None:
            await control_goal(context, run, goal, request)
        else:
            await _halt_run(context, find_other_run(context, run, name), request)


async def control_goal(context: RunContext, run: Run, goal: Goal, request: HaltRequest) -> None:
    """Stop, pause or cancel a goal and print its new status."""
    now = await request_goal_control(context, run, goal, request)
    print_text(_new_state_line(f"goal {goal.name}", now.state, f"scaffold resume {goal.name}"))


def _new_state_line(what: str, state: GoalState | RunState, resume: str) -> str:
    reason = reason_of(state)
    line = f"{what} is {status_of(state)}" + (f": {reason}" if reason else "")
    match state:
        case Paused():
            return f"{line}; `{resume}` continues it"
        case Saved():
            return f"{line} and not started; `{resume}` starts it"
        case Cancelled():
            return f"{line}; unlanded work is pinned: `scaffold salvage`"
        case _:
            return line


async def resume_goal(context: RunContext, run: Run, goal: Goal) -> None:
    """Resume a goal that the user paused; it continues together with its run."""
    now = await request_goal_control(context, run, goal, "resume")
    print_text(f"goal {goal.name} is {status_of(now.state)}")


async def _halt_run(context: RunContext, run: Run, request: HaltRequest) -> None:
    timeout_s = PAUSE_TIMEOUT_S if request == "pause" else STOP_TIMEOUT_S
    async with WorkLine(context.clock).during(Activity(label=f"{ENDING[request]} run {run.id}")):
        state = await halt_run(context, run, request, timeout_s=timeout_s)
    if state is not None:
        await write_end_report(context, run.id)
        print_text(_new_state_line(f"run {run.id}", state, f"scaffold resume {run.id}"))
        return
    ending = read_summary(context, run).ending or ENDING[request]
    print_text(f"run {run.id}: {ending}; `scaffold status {run.id}` shows it")


@click.command()
@click.argument("target", metavar="[RUN|GOAL|ACTION]", required=False)
@target_run_option
def retry(target: str | None, run_name: str | None) -> None:
    """Retry TARGET, a failed action, goal or run (default: the latest run).

    An action or a goal that waits because its workers died goes on at once.
    """
    run_async(_retry_target(target, run_name))


async def _retry_target(target: str | None, run_name: str | None) -> None:
    async with context_with_run(run_name, part=target) as (context, around):
        run, what = _reopen_target(context, around, target)
        await write_run_files(context, run)
        if is_executed(run):
            print_text(f"{what} is tried again now; `scaffold attach {run.id}` watches it")
        else:
            without = ", ".join(f"`{action.key}`" for action in stopped_for_good(context.store, run))
            but = f", except for what needs {without}, which was stopped for good" if without else ""
            print_text(f"{what} will be tried again{but}; `scaffold resume {run.id}` continues the run")


def _reopen_target(context: RunContext, run: Run, target: str | None) -> tuple[Run, str]:
    store = context.store
    if target is None:
        retry_run(store, run)
        return run, f"run {run.id}"
    if (action := action_if_any(context, run, target)) is not None:
        retry_action(store, run, action)
        return run, f"action {action.key}"
    if (goal := goal_if_any(context, run, target)) is not None:
        retry_goal(store, run, goal)
        return run, f"goal {goal.name}"
    named = find_other_run(context, run, target)
    retry_run(store, named)
    return named, f"run {named.id}"


@click.command()
@click.argument("run_name", metavar="[RUN]", required=False)
@json_option
@quiet_option
def attach(run_name: str | None, *, as_json: bool, quiet: bool) -> int:
    """Watch RUN (default: the latest) until it ends, and exit with its code.

    What goes on now comes first, then the latest events. Ctrl-C stops watching; the run continues.
    """
    try:
        return run_async(_attach_run(run_name, as_json=as_json, quiet=quiet))
    except KeyboardInterrupt:
        print_text(STOPPED_WATCHING, err=True)
        return OK


async def _attach_run(name: str | None, *, as_json: bool, quiet: bool) -> int:
    async with context_with_run(name) as (context, watched):
        since = 0
        if is_executed(watched) and not as_json and not quiet:
            # What goes on now comes first, then what led to it.
            print_changes()(read_summary(context, watched))
            since = max(0, context.store.events.last_seq(watched.id) - RECENT_EVENTS)
        run = await watch_run(context, watched, as_json=as_json, quiet=quiet, since=since)
        if display_status(run) == INTERRUPTED:
            await print_result(context, run.id, as_json=as_json)
            raise ScaffoldError(
                f"run {run.id} was interrupted: no process is executing it",
                f"Continue with `scaffold resume {run.id}`.",
            )
        return await print_end(context, run, as_json=as_json)
