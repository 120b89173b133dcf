"""`runs` and `queue`: the runs of a repository, and the candidates of one that wait to land."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from scaffold.cli.commands.options import json_option, pageable
from scaffold.cli.render.run_list_text import queue_text, runs_text
from scaffold.cli.render.status_text import no_run_text
from scaffold.cli.render.terminal.style import print_json
from scaffold.cli.render.terminal.text_layout import layout_for, print_text
from scaffold.core.states import INTERRUPTED, RUN_TRANSITIONS
from scaffold.host.startup import importing
from scaffold.views.run_json import queue_json
from scaffold.views.run_list import ListedRun, read_runs
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
        found = () if reader is None else read_runs(reader, statuses)[:last]
        if as_json:
            print_json({"runs": _with_taken(reader, found)})
        elif reader is None or (not found and not statuses):
            print_text(no_run_text())
        else:
            click.echo(
                runs_text(found, reader.clock.now(), layout_for(sys.stdout)) if found else "No run has this status."
            )


def _with_taken(reader: StoreReader | None, found: Sequence[ListedRun]) -> Sequence[ListedRun]:
    """Return the runs with whether work of them was taken; git is asked only if that may be."""
    if reader is None or not any(reader.store.branch_moves.done_of_run(each.id) for each in found):
        return found
    with importing():
        from scaffold.views.changes.taken_work import runs_with_taken_in
    return runs_with_taken_in(Path.cwd(), reader.store, found)


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
