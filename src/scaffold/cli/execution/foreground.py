"""Execute a run, or follow one that another process executes: signals, events, the report, the exit code."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import click

from scaffold.cli.execution.background_start import start_notifier
from scaffold.cli.execution.report_writer import write_end_report
from scaffold.cli.execution.taking import fulfil_order
from scaffold.cli.exit_codes import FAILED, INTERRUPTED, INVALID, LIMIT, OK, WAITING
from scaffold.cli.global_options import shared_log
from scaffold.cli.render.live.event_lines import EventSink, JsonEventLines, tail_events
from scaffold.cli.render.live.live_screen import run_screen
from scaffold.cli.render.live.work_line import WorkLine
from scaffold.cli.render.report import report
from scaffold.cli.render.terminal.style import is_ci, is_terminal, note_printer, print_json
from scaffold.cli.render.terminal.text_layout import layout_for, print_text
from scaffold.cli.verbose_log import showing_others
from scaffold.cli.wiring import processes_of, repository_context
from scaffold.config.environment_command import environment_from
from scaffold.core.errors import EnvironmentNotReady
from scaffold.core.ids import RunId
from scaffold.core.model import Activity, Run
from scaffold.core.states import Cancelled, Completed, Failed, reason_of
from scaffold.host.process_identity import is_alive
from scaffold.host.startup import importing, relax_gc
from scaffold.orchestrator.owner.own_run import own_run
from scaffold.orchestrator.owner.run_end import PAUSE_REASONS, EndCause
from scaffold.orchestrator.owner.run_lease import require_run
from scaffold.orchestrator.owner.run_loop import RunEnding
from scaffold.orchestrator.owner.watch.notifications import notify_until_done
from scaffold.run.context import RunContext
from scaffold.run.learning.reviewer_records import keep_outcomes
from scaffold.views.changes.taken_work import summary_with_taken, with_taken
from scaffold.views.run_json import run_json
from scaffold.views.run_view import read_run_view, read_summary
from scaffold.views.store_reader import find_report, is_executed

EXIT_CODE_BY_PAUSE: Mapping[str | None, int] = {PAUSE_REASONS["limit"]: LIMIT, PAUSE_REASONS["stopped"]: INTERRUPTED}
"""Exit codes by pause reason; every other pause waits for a human."""
EXIT_CODE_BY_CAUSE: Mapping[EndCause, int] = {
    "limit": LIMIT,
    "unavailable": WAITING,
    "unchanged": WAITING,
    "held": WAITING,
    "paused": WAITING,
    "waiting": WAITING,
    "stopped": INTERRUPTED,
    "cancelled": FAILED,
}
"""Exit codes of a run that did not end; after `done` the state decides."""
STOPPED_WATCHING = "\nstopped watching; the run continues, `scaffold stop` stops it"
STOPPING = "\nstopping: nothing new starts, unfinished work is pinned (Ctrl-C again: stop immediately)"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def run_in_foreground(context: RunContext, run_id: RunId, *, as_json: bool = False, quiet: bool = False) -> int:
    """Execute a run until it ends or has to pause; return the exit code, FAILED if its order could not be done."""
    relax_gc()
    # Before the claim, so that the event of the claim is shown, too.
    since = last_seq_before(context, run_id)
    try:
        async with AsyncExitStack() as stack:
            shown = WorkLine(context.clock, told=True, quiet=quiet or as_json)
            await load_variables(context, require_run(context.store, run_id), shown)
            async with shown.during(Activity(label=f"takes run {run_id} over")):
                own = own_run(context, run_id, partial(processes_of, context), notice=note_printer(quiet=quiet))
                owner = await stack.enter_async_context(own)

            def stop() -> None:
                owner.request_stop("stopped")
                print_text(STOPPING, err=True)

            handle_interrupts(stop)
            sink = event_sink_for(context, owner.run, as_json=as_json, quiet=quiet, stopping=lambda: owner.is_ending)
            async with showing_events(context, owner.run, sink, since=since):
                ending = await owner.execute()
                keep_outcomes(context, run_id)
    except EnvironmentNotReady:
        await write_end_report(context, run_id)
        await print_result(context, run_id, as_json=as_json)
        raise
    is_done = await finish(context, run_id, as_json=as_json)
    return exit_code_of(ending) if is_done else FAILED


def event_sink_for(
    context: RunContext, run: Run, *, as_json: bool, quiet: bool = False, stopping: Callable[[], bool] = lambda: False
) -> EventSink:
    """Return the sink for events: JSON for programs, a screen that asks on a terminal, else lines of text.

    With `quiet`, only questions are shown. While the run is `stopping`, nothing is asked.
    """
    if as_json:
        return JsonEventLines()
    screen = run_screen(context, run, quiet=quiet)
    if is_ci() or not is_terminal(sys.stdin, sys.stdout):
        return screen
    with importing():
        from scaffold.cli.execution.asking_screen import AskingScreen
    return AskingScreen(repository_context(context.repository), run, screen, stopping=stopping)


async def load_variables(context: RunContext, run: Run, shown: WorkLine) -> None:
    """Put the variables into the environment that the user's command `env.from` prints, if there is one."""
    if command := run.settings.environment.source:
        async with shown.during(Activity(label="asks for variables", command=command)):
            os.environ.update(await environment_from(command, root=context.repository.root, environ=os.environ))


async def finish(context: RunContext, run_id: RunId, *, as_json: bool = False) -> bool:
    """Do what was ordered for the end of a run that has completed, and report; return whether nothing is left to do."""
    done = True
    try:
        run = require_run(context.store, run_id)
        if isinstance(run.state, Completed):
            done = await fulfil_order(context, run)
    finally:  # whatever went wrong there, the run has ended
        page = await write_end_report(context, run_id)
        await _print_outcome(context, require_run(context.store, run_id), page, as_json=as_json)
    return done


async def _print_outcome(context: RunContext, run: Run, page: Path | None, *, as_json: bool) -> None:
    if as_json:
        await print_result(context, run.id, as_json=True)
    else:
        view = await with_taken(context.git, context.store, read_run_view(context, run))
        click.echo(report(view, context.repository.root, layout_for(sys.stdout), page))


async def print_result(context: RunContext, run_id: RunId, *, as_json: bool) -> None:
    """Print the last line of the JSON output; nothing without `as_json`."""
    if as_json:
        summary = read_summary(context, require_run(context.store, run_id))
        shown = run_json(await summary_with_taken(context.git, context.store, summary))
        print_json({"type": "result", "run": shown})


def exit_code_of(ending: RunEnding) -> int:
    """Return the exit code for the state of a run and why this process stopped executing it."""
    match ending.state:
        case Completed():
            return OK
        case Failed() | Cancelled():
            return FAILED
        case _:
            return EXIT_CODE_BY_CAUSE[ending.cause]


def last_seq_before(context: RunContext, run_id: RunId) -> int:
    """Return the event after which a run that is about to be taken over is shown; 0 if it never had an owner."""
    run = require_run(context.store, run_id)
    return context.store.events.last_seq(run.id) if run.fence else 0


@asynccontextmanager
async def showing_events(context: RunContext, run: Run, sink: EventSink, *, since: int) -> AsyncIterator[None]:
    """Show the events after `since` while the block runs, including the last ones.

    The display ends after the notifier: if the user's command fails at the very end, that is an event, too.
    """
    finished = False
    notifier = asyncio.create_task(notify_until_done(context, run, lambda: finished, send_later=start_notifier))
    follower = asyncio.create_task(
        tail_events(context, run, sink, since=since, done=lambda: finished and notifier.done())
    )
    try:
        async with showing_others(shared_log()):
            yield
    finally:
        finished = True
        await notifier
        await follower


def handle_interrupts(stop: Callable[[], None]) -> None:
    """Call `stop` at the first signal, instead of an earlier handler; end the process at the second one.

    No clean-up is needed then: workers and checks end when their pipes to this process break.
    """
    loop, seen = asyncio.get_running_loop(), 0

    def on_signal() -> None:
        nonlocal seen
        seen += 1
        if seen > 1:
            os._exit(INTERRUPTED)
        stop()

    for number in SIGNALS:
        loop.add_signal_handler(number, on_signal)


def restore_interrupts() -> None:
    """Restore the default signal handlers."""
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.remove_signal_handler(number)


async def watch_run(
    context: RunContext,
    run: Run,
    *,
    as_json: bool,
    quiet: bool = False,
    since: int = 0,
    is_enough: Callable[[], bool] = lambda: False,
) -> Run:
    """Show a run's events after `since` until no process executes it, or `is_enough`; return it as it is then."""

    def has_ended() -> bool:
        # The final state is stored before the owner releases the run, and an owner that held it is about to continue.
        now = require_run(context.store, run.id)
        return not is_executed(now) and (now.owner is None or not is_alive(now.owner))

    await tail_events(
        context,
        run,
        event_sink_for(context, run, as_json=as_json, quiet=quiet),
        since=since,
        done=lambda: is_enough() or has_ended(),
    )
    return require_run(context.store, run.id)


async def print_end(context: RunContext, run: Run, *, as_json: bool) -> int:
    """Print the report of a run that was not interrupted; return the exit code that its owner ended with."""
    await _print_outcome(context, run, find_report(context.repository.root, run.id), as_json=as_json)
    match run.state:
        case Completed():
            return OK
        case Failed():
            turns = context.store.turns.for_run(run.id)
            is_rejected = bool(turns) and turns[-1].outcome == "refused" and not context.store.goals.for_run(run.id)
            return INVALID if is_rejected else FAILED
        case Cancelled():
            return FAILED
        case state:
            return EXIT_CODE_BY_PAUSE.get(reason_of(state), WAITING)
