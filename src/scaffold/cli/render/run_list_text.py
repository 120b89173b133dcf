"""The runs of a repository, and the queue of one, as text."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from scaffold.cli.render.terminal.style import status_mark
from scaffold.cli.render.terminal.text_layout import Layout
from scaffold.cli.render.terminal.text_table import table_lines
from scaffold.core.landing.queue_place import PlaceState, QueuePlace
from scaffold.core.printable_text import join_limited, printable
from scaffold.views.run_list import ListedRun
from scaffold.views.run_view import RunView
from scaffold.views.text_format import ago, format_cost, local_time

MAX_PATHS = 5
STATES: Mapping[PlaceState, str] = {
    "proving": "its checks run",
    "proven": "its checks have passed",
    "gates": "the gates run for all that land together",
}
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
        lines += layout.wrap(" " * 6, _candidate_step(place))
        for key, paths in place.conflicts.items():
            what = f"will conflict with {key} in {join_limited([printable(path) for path in paths], MAX_PATHS)}"
            lines += layout.wrap(" " * 6, what)
    return "\n".join(lines)


def _candidate_step(place: QueuePlace) -> str:
    names = join_limited(place.waits_for, MAX_PATHS)
    if place.state == "held":
        return f"conflicts with what has landed; waits for {names}, so that it is done again only once"
    if place.state == "merging":
        return f"conflicts with what has landed; {place.detail}, others land meanwhile"
    if place.state == "approval":
        return f"waits for your approval {place.detail}; others land meanwhile"
    if place.lane is None:
        have = "has" if len(place.waits_for) == 1 else "have"
        return f"waits until {names} {have} landed" if names else "waits"
    return f"lane {place.lane}: {STATES[place.state]}"
