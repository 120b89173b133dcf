"""`runs` and `queue`: the runs of a repository, and the candidates of one that wait to land."""

import os
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

import click

from scaffold.cli.commands.options import json_option, pageable
from scaffold.cli.render.layout import layout_for, print_text
from scaffold.cli.render.runs import queue_text, runs_text
from scaffold.cli.render.status_text import no_run_text
from scaffold.cli.render.style import print_json
from scaffold.core.ids import RunId
from scaffold.core.states import INTERRUPTED, RUN_TRANSITIONS
from scaffold.host.startup import lazy_import
from scaffold.views.run_json import queue_json
from scaffold.views.run_list import read_runs
from scaffold.views.run_view import read_run_view
from scaffold.views.store_reader import StoreReader, find_run_if_any, store_reader_if_any

STATUSES = (*RUN_TRANSITIONS, INTERRUPTED)


@click.command()
@click.option("--status", "statuses", type=click.Choice(STATUSES), multiple=True, help="Only runs with this status.")
@click.option("-n", "--last", type=click.IntRange(min=1), metavar="N", help="Only the N that were touched last.")
@json_option
@pageable
def runs(statuses: Sequence[str], last: int | None, *, as_json: bool) -> None:
    """List the runs of this repository, the one in which something happened last first."""
    with store_reader_if_any(Path.cwd(), os.environ) as reader:
        found = () if reader is None else read_runs(reader, statuses, taken=_taken(reader))[:last]
        if as_json:
            print_json({"runs": found})
        elif reader is None or (not found and not statuses):
            print_text(no_run_text())
        else:
            click.echo(
                runs_text(found, reader.clock.now(), layout_for(sys.stdout)) if found else "No run has this status."
            )


def _taken(reader: StoreReader) -> Collection[RunId]:
    """Return the runs of which work was taken; git is asked only if there may be one."""
    moves = reader.store.branch_moves
    moved = [run for run in reader.store.runs.all() if any(move.takes_work for move in moves.done_of_run(run.id))]
    if not moved:
        return ()
    found: Collection[RunId] = lazy_import("scaffold.views.taken:taken_runs_in")(Path.cwd(), reader.store, moved)
    return found


@click.command()
@click.argument("run_name", metavar="[RUN]", required=False)
@json_option
@pageable
def queue(run_name: str | None, *, as_json: bool) -> None:
    """Show the candidates of RUN (default: the latest) that wait to land, in order."""
    with store_reader_if_any(Path.cwd(), os.environ) as reader:
        run = find_run_if_any(reader, run_name)
        view = None if reader is None or run is None else read_run_view(reader, run)
        if as_json:
            print_json({"run": view.run.id if view else None, "queue": queue_json(view) if view else []})
        elif view is None:
            print_text(no_run_text())
        else:
            click.echo(queue_text(view, layout_for(sys.stdout)) if view.queue else "Nothing waits to land.")
