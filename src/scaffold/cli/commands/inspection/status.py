"""`status`: the state of a run."""

import os
import sys
from pathlib import Path
from threading import Event

import click

from scaffold.cli.commands.options import json_option, pageable
from scaffold.cli.render.status_text import no_run_text, status_text
from scaffold.cli.render.terminal.style import can_draw_on, print_json, print_note
from scaffold.cli.render.terminal.text_layout import layout_for, print_text
from scaffold.core.model import Run
from scaffold.core.run_settings import TakingSettings
from scaffold.core.states import Completed
from scaffold.host.startup import importing
from scaffold.views.run_json import NO_RUN_JSON, run_view_json
from scaffold.views.run_view import RunView, read_run_view, read_summary
from scaffold.views.store_reader import StoreReader, find_report, find_run_if_any, latest_run, store_reader_if_any

REDRAW_S = 1.0
NEVER_SET = Event()  # never set: unlike a sleep, a wait for it can be interrupted


@click.command()
@click.argument("run_name", metavar="[RUN]", required=False)
@click.option("--watch", is_flag=True, help="Show the run's agents, updated every second until it ends or Ctrl-C.")
@json_option
@pageable
def status(run_name: str | None, *, watch: bool, as_json: bool) -> None:
    """Show RUN (default: the latest): what needs you, what holds, what is missing, what to do next."""
    try:
        _print_status(run_name, watch=watch, as_json=as_json)
    except KeyboardInterrupt:
        if not watch:
            raise


def _print_status(run_name: str | None, *, watch: bool, as_json: bool) -> None:
    with store_reader_if_any(Path.cwd(), os.environ, show=print_note) as reader:
        run = find_run_if_any(reader, run_name)
        if reader is None or run is None:
            if as_json:
                print_json(NO_RUN_JSON)
            else:
                print_text(no_run_text())
        elif watch and as_json:
            _watch_json(reader, run)
        elif watch:
            with importing():
                from scaffold.cli.render.live.watch_view import print_changes, redraw_frames
            # A dumb terminal gets no escape sequences.
            show = redraw_frames(sys.stdout) if can_draw_on(sys.stdout) else print_changes()
            while (view := read_summary(reader, run)).is_live:
                show(view)
                NEVER_SET.wait(REDRAW_S)
            show(None)
            _print_run(reader, run)
        elif as_json:
            print_json(run_view_json(_read_view(reader, run)))
        else:
            _print_run(reader, run)


def _watch_json(reader: StoreReader, run: Run) -> None:
    shown = None
    while True:
        view = _read_view(reader, run)
        if (now := run_view_json(view)) != shown:
            shown = now
            print_json(now)
        if not view.summary.is_live:
            return
        NEVER_SET.wait(REDRAW_S)


def _print_run(reader: StoreReader, run: Run) -> None:
    latest = latest_run(reader.store)
    is_latest = latest is not None and latest.id == run.id
    page = find_report(Path.cwd(), run.id)
    click.echo(status_text(_read_view(reader, run), layout_for(sys.stdout), page, latest=is_latest))


def _read_view(reader: StoreReader, run: Run) -> RunView:
    # Git is asked only about a run of which work was, or is to be, taken.
    view = read_run_view(reader, run)
    is_ordered = isinstance(run.state, Completed) and run.settings.taking != TakingSettings()
    if not is_ordered and not reader.store.branch_moves.done_of_run(run.id):
        return view
    with importing():  # an event loop and git take longer to load than all the rest
        from scaffold.views.changes.taken_work import with_taken_in
    return with_taken_in(Path.cwd(), reader.store, view)
