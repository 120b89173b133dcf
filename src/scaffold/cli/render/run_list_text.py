"""The runs of a repository, and the queue of one, as text."""

from collections.abc import Sequence
from datetime import datetime

from scaffold.cli.render.terminal.style import status_mark
from scaffold.cli.render.terminal.text_layout import Layout
from scaffold.cli.render.terminal.text_table import table_lines
from scaffold.views.action_notes import conflict_notes, place_note
from scaffold.views.run_list import ListedRun
from scaffold.views.run_view import RunView
from scaffold.views.text_format import ago, format_cost, local_time

LEAST_CELLS = (len("interrupted"), 0, len("12 m ago"), len("0/100 landed"), len("cost unknown"))


def runs_text(runs: Sequence[ListedRun], now: datetime, layout: Layout) -> str:
    """Return a line for each run: status, id, age, landed actions, cost, request."""
    rows = [
        (
            f"{status_mark(run.status)} ",
            *(run.status, run.id, ago(now - run.updated_at), f"{run.landed}/{run.actions} landed"),
            *(format_cost(run.cost_usd), layout.shorten(run.request)),
        )
        for run in runs
    ]
    return "\n".join(table_lines(rows, layout, least=LEAST_CELLS))


def queue_text(view: RunView, layout: Layout) -> str:
    """Return the candidates that wait to land, in order: their step, what they wait for, their conflicts."""
    actions = {action.id: action for action in view.actions}
    lines: list[str] = []
    for number, attempt in enumerate(view.queue, start=1):
        action, place = actions[attempt.action_id], view.places.get(attempt.id)
        since = f"attempt {attempt.number}, handed in {local_time(action.updated_at, view.summary.at)}"
        lines += layout.wrap(f"{number:>3} {status_mark('landing')} ", f"{action.key}  {since}")
        if place is None:
            continue
        lines += layout.wrap(" " * 6, place_note(place))
        for what in conflict_notes(place):
            lines += layout.wrap(" " * 6, what)
    return "\n".join(lines)
