"""`status`: where a run stands, for people and for scripts."""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import click

from scaffold.cli.canvas import Canvas
from scaffold.cli.overview import nothing_yet, overview
from scaffold.cli.picture import GOING_ON, take
from scaffold.cli.reader import Reader, find_run, reader_if_any
from scaffold.cli.screen import WIDTH, at_terminal, json_option, print_json
from scaffold.cli.snapshot import EMPTY, shape
from scaffold.cli.watching import Scene, frame, look_at
from scaffold.core.errors import UsageProblem
from scaffold.core.model import Run

REDRAW_S = 1.0
PAUSE = Event()
"""Never set: waiting for it can be interrupted."""

Show = Callable[[Scene | None], None]
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
    with reader_if_any(Path.cwd(), os.environ) as reader:
        run = _run(reader, run_name)
        if reader is None or run is None:
            _show_nothing(as_json=as_json)
        elif watch and as_json:
            _watch_shapes(reader, run)
        elif watch:
            _watch(reader, run)
        elif as_json:
            print_json(shape(take(reader, run)))
        else:
            click.echo(overview(take(reader, run)))


def _watch_shapes(reader: Reader, run: Run) -> None:
    """Print the run whenever it has changed, until it ends; the last line is how it ended."""
    shown = None
    while True:
        picture = take(reader, run)
        if (now := shape(picture)) != shown:
            shown = now
            print_json(now)
        if picture.status not in GOING_ON:
            return
        PAUSE.wait(REDRAW_S)


def _watch(reader: Reader, run: Run) -> None:
    """Show frames until the run ends, then the whole of it; no escapes where no terminal would understand them."""
    drawn = at_terminal(sys.stdout) and os.environ.get("TERM", "dumb") != "dumb"
    show = _drawn(Canvas(sys.stdout)) if drawn else _listed()
    while (scene := look_at(reader, run)).going_on:
        show(scene)
        PAUSE.wait(REDRAW_S)
    show(None)
    click.echo(overview(take(reader, run)))


def _drawn(canvas: Canvas) -> Show:
    def show(scene: Scene | None) -> None:
        if scene is None:
            canvas.erase()
            return
        size = shutil.get_terminal_size()
        canvas.draw(frame(scene, size.columns, size.lines - 1), (size.columns, size.lines))

    return show


def _listed() -> Show:
    """Return what prints a frame for each change, one below the other."""
    shown: list[Any] = []

    def show(scene: Scene | None) -> None:
        if scene is not None and (now := scene.ageless()) not in shown:
            shown[:] = [now]
            click.echo("\n".join([*frame(scene, WIDTH), ""]))

    return show


def _run(reader: Reader | None, name: str | None) -> Run | None:
    if name is None:
        return reader.store.runs.latest() if reader else None
    if reader is None:
        raise UsageProblem(f"`{name}` is not a run of this repository", "There is none yet.")
    return find_run(reader, name)


def _show_nothing(*, as_json: bool) -> None:
    if as_json:
        print_json(EMPTY)
    else:
        click.echo(nothing_yet())
