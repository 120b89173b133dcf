"""`logs`: the replies and tool calls of agents."""

import sys
from collections.abc import Callable
from datetime import datetime

import click

from scaffold.cli.commands.options import json_option, pageable, run_option
from scaffold.cli.render.terminal.style import paint
from scaffold.cli.render.terminal.text_layout import layout_for, print_text
from scaffold.cli.wiring import context_with_run
from scaffold.core.errors import UsageError
from scaffold.core.printable_text import printable
from scaffold.host.contained_path import ContainedPath
from scaffold.host.process.async_runner import run_async
from scaffold.views.journal_entries import JournalEntry, entry_lines, whole_entry_lines
from scaffold.views.journal_stream import FileTail, agent_label, new_entries
from scaffold.views.name_lookup import find_action
from scaffold.views.store_reader import is_executed
from scaffold.views.text_format import local_time

POLL_S = 0.3  # with --follow
INDENT = "    "


@click.command()
@click.argument("action_name", metavar="[ACTION]", required=False)
@click.option("-f", "--follow", is_flag=True, help="Continue until the run has ended.")
@click.option("--full", is_flag=True, help="Show the arguments and results of tools whole.")
@run_option
@json_option
@pageable
def logs(action_name: str | None, run_name: str | None, *, follow: bool, full: bool, as_json: bool) -> None:
    """Show the replies and tool calls of the agents of ACTION, or of all actions in order of time.

    Arguments and results of tools are shortened, unless `--full`; of a command that failed the line that decided is
    shown. With `--json`, print the journal entries as they are, one JSON object a line.
    """
    if full and as_json:
        raise UsageError("`--full` is about text", "Leave it out: the JSON has everything.")
    lines_of = whole_entry_lines if full else entry_lines

    def show(entry: JournalEntry, now: datetime) -> None:
        if as_json:
            click.echo(entry.line)
            return
        # For example `12:03:04 store#1 shell: python -m pytest -q`.
        head = f"{local_time(entry.at, now)} {paint(printable(agent_label(entry.fields)), 'cyan')} "
        text = "\n".join(lines_of(entry.fields))
        click.echo("\n".join(layout_for(sys.stdout).wrap(head, text, hang=len(INDENT))))

    try:
        run_async(_print_logs(action_name, run_name, show, follow=follow))
    except KeyboardInterrupt:
        if not follow:
            raise


async def _print_logs(
    action_name: str | None, run_name: str | None, show: Callable[[JournalEntry, datetime], None], *, follow: bool
) -> None:
    async with context_with_run(run_name, "worked", part=action_name) as (context, run):
        only = find_action(context, run, action_name) if action_name else None
        tails: dict[ContainedPath, FileTail] = {}
        seen = False
        while True:
            # Asked before reading, so that the last round still shows what was written up to the end.
            now = context.store.runs.get(run.id)
            going_on = now is not None and is_executed(now)
            for entry in new_entries(context.store, context.projection_places, run, only, tails):
                show(entry, context.clock.now())
                seen = True
            if not (follow and going_on):
                break
            await context.clock.sleep(POLL_S)
        if not seen:
            about = f"`{only.key}`" if only else f"run {run.id}"
            print_text(f"no agent of {about} has written to its log yet", err=True)
