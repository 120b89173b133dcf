"""`status`: where a run stands, for people and for scripts."""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import click

from scaffold.cli.commands.options import json_option
from scaffold.cli.render.redraw import ScreenRedraw
from scaffold.cli.render.status_text import no_run_text, status_text
from scaffold.cli.render.style import is_terminal, print_json
from scaffold.cli.render.watch_view import frame_lines
from scaffold.core.errors import UsageError
from scaffold.core.model import Run
from scaffold.views.run_json import NO_RUN_JSON, run_view_json
from scaffold.views.run_view import LIVE_STATUSES, read_run_view
from scaffold.views.store_reader import StoreReader, find_run, store_reader_if_any
from scaffold.views.text_format import WIDTH
from scaffold.views.watch_frame import WatchFrame, read_frame

REDRAW_S = 1.0
NEVER_SET = Event()
"""Never set: waiting for it can be interrupted."""

ShowFrame = Callable[[WatchFrame | None], None]
"""Shows a scene; None when there will be no other."""


@click.command()
@click.argument("run_name", metavar="[RUN]", required=False)
@click.option("--watch", is_flag=True, help="Show its agents, anew every second, until it ends or Ctrl-C.")
@json_option
def status(run_name: str | None, *, watch: bool, as_json: bool) -> None:
    """Show where RUN stands, the latest without it: what needs you, what holds, what is missing, what to do next."""
    try:
        _status(run_name, watch=watch, as_json=as_json)
    except KeyboardInterrupt:
        if not watch:
            raise


def _status(run_name: str | None, *, watch: bool, as_json: bool) -> None:
    with store_reader_if_any(Path.cwd(), os.environ) as reader:
        run = _run(reader, run_name)
        if reader is None or run is None:
            _show_nothing(as_json=as_json)
        elif watch and as_json:
            _watch_json(reader, run)
        elif watch:
            _watch(reader, run)
        elif as_json:
            print_json(run_view_json(read_run_view(reader, run)))
        else:
            click.echo(status_text(read_run_view(reader, run)))


def _watch_json(reader: StoreReader, run: Run) -> None:
    """Print the run whenever it has changed, until it ends; the last line is how it ended."""
    shown = None
    while True:
        picture = read_run_view(reader, run)
        if (now := run_view_json(picture)) != shown:
            shown = now
            print_json(now)
        if picture.status not in LIVE_STATUSES:
            return
        NEVER_SET.wait(REDRAW_S)


def _watch(reader: StoreReader, run: Run) -> None:
    """Show frames until the run ends, then the whole of it; no escapes where no terminal would understand them."""
    drawn = is_terminal(sys.stdout) and os.environ.get("TERM", "dumb") != "dumb"
    show = _redraw_frames(ScreenRedraw(sys.stdout)) if drawn else _print_frames()
    while (scene := read_frame(reader, run)).going_on:
        show(scene)
        NEVER_SET.wait(REDRAW_S)
    show(None)
    click.echo(status_text(read_run_view(reader, run)))


def _redraw_frames(canvas: ScreenRedraw) -> ShowFrame:
    def show(scene: WatchFrame | None) -> None:
        if scene is None:
            canvas.erase()
            return
        size = shutil.get_terminal_size()
        canvas.draw(frame_lines(scene, size.columns, size.lines - 1), (size.columns, size.lines))

    return show


def _print_frames() -> ShowFrame:
    """Return what prints a frame for each change, one below the other."""
    shown: list[Any] = []

    def show(scene: WatchFrame | None) -> None:
        if scene is not None and (now := scene.without_ages()) not in shown:
            shown[:] = [now]
            click.echo("\n".join([*frame_lines(scene, WIDTH), ""]))

    return show


def _run(reader: StoreReader | None, name: str | None) -> Run | None:
    if name is None:
        return reader.store.runs.latest() if reader else None
    if reader is None:
        raise UsageError(f"`{name}` is not a run of this repository", "There is none yet.")
    return find_run(reader, name)


def _show_nothing(*, as_json: bool) -> None:
    if as_json:
        print_json(NO_RUN_JSON)
    else:
        click.echo(no_run_text())
