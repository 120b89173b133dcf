"""`status`: where a run stands, for people and for scripts."""

import os
from pathlib import Path
from threading import Event

import click

from scaffold.cli.desk import Desk, desk_if_any, find_run
from scaffold.cli.overview import nothing_yet, overview
from scaffold.cli.picture import GOING_ON, Picture, take
from scaffold.cli.screen import json_option, print_json
from scaffold.cli.snapshot import EMPTY, shape
from scaffold.core.errors import UsageProblem
from scaffold.core.model import Run

REDRAW_S = 1.0


@click.command()
@click.argument("run_name", metavar="[RUN]", required=False)
@click.option("--watch", is_flag=True, help="Draw anew every second until the run ends or Ctrl-C.")
@json_option
def status(run_name: str | None, *, watch: bool, as_json: bool) -> None:
    """Show where RUN stands, the latest without it: what needs you, what holds, what is missing, what to do next."""
    try:
        _status(run_name, watch=watch, as_json=as_json)
    except KeyboardInterrupt:
        if not watch:
            raise


def _status(run_name: str | None, *, watch: bool, as_json: bool) -> None:
    with desk_if_any(Path.cwd(), os.environ) as desk:
        run = _run(desk, run_name)
        if desk is None or run is None:
            _show_nothing(as_json=as_json)
            return
        picture = take(desk, run)
        _show(picture, as_json=as_json, clear=watch)
        while watch and picture.status in GOING_ON:
            Event().wait(REDRAW_S)
            picture = take(desk, run)
            _show(picture, as_json=as_json, clear=True)


def _run(desk: Desk | None, name: str | None) -> Run | None:
    if name is None:
        return desk.store.runs.latest() if desk else None
    if desk is None:
        raise UsageProblem(f"`{name}` is not a run of this repository", "There is none yet.")
    return find_run(desk, name)


def _show_nothing(*, as_json: bool) -> None:
    if as_json:
        print_json(EMPTY)
    else:
        click.echo(nothing_yet())


def _show(picture: Picture, *, as_json: bool, clear: bool) -> None:
    """Print the picture; `clear` takes an older one off the screen, where there is a screen."""
    if as_json:
        print_json(shape(picture))
        return
    if clear:
        click.clear()
    click.echo(overview(picture))
