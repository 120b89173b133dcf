"""The hidden command `background`: executes a run in the background."""

import os
from contextlib import closing, suppress
from pathlib import Path

import click

from scaffold.cli.execution.flow import run_to_end
from scaffold.cli.execution.foreground import finish
from scaffold.cli.execution.report_writer import write_end_report
from scaffold.cli.exit_codes import OK, WAITING
from scaffold.cli.wiring import open_context
from scaffold.core.errors import ScaffoldError
from scaffold.core.states import Active, Completed, Planning
from scaffold.host.process.async_runner import run_async
from scaffold.orchestrator.owner.processes.crash_history import run_progress
from scaffold.orchestrator.owner.restart import continue_after_death, give_up_restarts
from scaffold.orchestrator.owner.run_lease import release_run, take_over_run_when_free
from scaffold.views.store_reader import find_run


@click.command(hidden=True)
@click.argument("run_name", metavar="RUN")
@click.option("--report", type=int, required=True, help="The descriptor for the lines that the restarter reads.")
@click.option("--after", type=int, help="How the previous process died: its exit code or negated signal.")
@click.option("--give-up", is_flag=True, help="Only pause the run, because its processes died too often.")
def background(run_name: str, *, report: int, after: int | None, give_up: bool) -> int:
    """Execute a run in the background, started by `restarter`; its output goes to the process log."""
    os.set_inheritable(report, False)  # not for the processes of the run
    _tell_restarter(report, "started")
    try:
        code = run_async(_execute_run(run_name, report, after, give_up=give_up))
    except ScaffoldError:
        _tell_restarter(report, "ended")
        raise
    # Without this line, after an unexpected error, the restarter runs this command again.
    _tell_restarter(report, "ended")
    return code


async def _execute_run(run_name: str, report: int, after: int | None, *, give_up: bool) -> int:
    context = await open_context(Path.cwd())
    with closing(context.store):
        run = await take_over_run_when_free(context, find_run(context, run_name).id, restart=True)
        # Another process ended or paused it since, and decides how it goes on.
        if after is not None and not isinstance(run.state, Planning | Active):
            release_run(context.store, run)
            if isinstance(run.state, Completed):  # it may have died before it did what was ordered for the end
                await finish(context, run.id)
            return OK
        if give_up:
            await give_up_restarts(context, run)
            await write_end_report(context, run.id)
            return WAITING
        if after is not None:
            await continue_after_death(context, run, after)
        _tell_restarter(report, f"progress {run_progress(context.store, run.id)}")
        return await run_to_end(context, run.id)


def _tell_restarter(report: int, line: str) -> None:
    with suppress(BrokenPipeError):  # the restarter was killed, so this process is not restarted now
        os.write(report, f"{line}\n".encode())
