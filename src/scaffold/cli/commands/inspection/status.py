"""`status`: the state of a run."""

import os
import sys
from functools import cache
from pathlib import Path
from threading import Event

import click
import msgspec

from scaffold.cli.commands.options import json_option, pageable
from scaffold.cli.render.status_text import no_run_text, status_text
from scaffold.cli.render.terminal.style import can_draw_on, print_json, print_note
from scaffold.cli.render.terminal.text_layout import layout_for, print_text
from scaffold.core.errors import UsageError
from scaffold.core.model import Run
from scaffold.core.run_settings import TakingSettings
from scaffold.core.states import Completed
from scaffold.host.startup import importing
from scaffold.host.wall_clock import WallClock
from scaffold.views.run_json import NO_RUN_JSON, run_view_json
from scaffold.views.run_view import RunView, read_run_view, read_summary
from scaffold.views.store_reader import (
    StoreReader,
    Wanted,
    find_report,
    find_run_if_any,
    latest_run,
    newest_run,
    store_reader_if_any,
)

HINTED: tuple[Wanted, ...] = ("any", "started", "worked", "landed")  # what the commands below a run are about
NEVER_SET = Event()  # never set: unlike a sleep, a wait for it can be interrupted


@click.command()
@click.argument("run_name", metavar="[RUN]", required=False)
@click.option("--watch", is_flag=True, help="Show the run's agents, updated until it ends or Ctrl-C.")
@click.option("--changes", is_flag=True, help="Show only which tasks started, completed or are blocked, and errors.")
@json_option
@pageable
def status(run_name: str | None, *, watch: bool, changes: bool, as_json: bool) -> None:
    """Show RUN (default: the latest): what needs you, what holds, what is missing, what to do next."""
    if watch and changes:
        raise UsageError("`--watch` shows what is now, `--changes` what was", "Follow a run with `scaffold attach -q`.")
    try:
        if changes:
            _print_changes(run_name, as_json=as_json)
        else:
            _print_status(run_name, watch=watch, as_json=as_json)
    except KeyboardInterrupt:
        if not watch:
            raise


def _print_changes(run_name: str | None, *, as_json: bool) -> None:
    with importing():  # it follows runs, too, with an event loop
        from scaffold.cli.render.live.event_lines import change_sentence, sentence_lines, task_change
    with store_reader_if_any(Path.cwd(), os.environ, show=print_note) as reader:
        run = find_run_if_any(reader, run_name)
        events = () if reader is None or run is None else reader.store.events.since(run.id, 0)
        if as_json:
            found = [(each.at, change) for each in events if (change := task_change(each.event)) is not None]
            shown = [{"at": at, **msgspec.to_builtins(change)} for at, change in found]
            print_json({"run": run and run.id, "changes": shown})
        elif run is None:
            print_text(no_run_text())
        for each in () if as_json else events:
            if sentence := change_sentence(each.event):
                click.echo("\n".join(sentence_lines(sentence, each.at, WallClock().now(), layout_for(sys.stdout))))


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
                NEVER_SET.wait(_refresh_s())
            show(None)
            _print_run(reader, run)
        elif as_json:
            print_json(run_view_json(_read_view(reader, run)))
        else:
            _print_run(reader, run)


@cache
def _refresh_s() -> float:
    with importing():  # only those who watch need the settings
        from scaffold.config.settings import load_settings
    return load_settings(Path.cwd(), os.environ, {}).number("refresh")


def _watch_json(reader: StoreReader, run: Run) -> None:
    shown = None
    while True:
        view = _read_view(reader, run)
        if (now := run_view_json(view)) != shown:
            shown = now
            print_json(now)
        if not view.summary.is_live:
            return
        NEVER_SET.wait(_refresh_s())


def _print_run(reader: StoreReader, run: Run) -> None:
    newest = newest_run(reader.store)
    meant = (latest_run(reader.store, wanted, newest=newest) for wanted in HINTED)
    is_latest = all(each is not None and each.id == run.id for each in meant)
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
