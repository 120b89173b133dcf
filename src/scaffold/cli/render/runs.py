"""The runs of a repository, and the queue of one, as text."""

from collections.abc import Sequence
from datetime import datetime

from scaffold.cli.render.layout import Layout
from scaffold.cli.render.style import status_mark
from scaffold.views.run_list import ListedRun
from scaffold.views.run_view import RunView
from scaffold.views.text_format import ago, format_cost, local_time, pad

STATUS_CELLS = len("interrupted")


def runs_text(runs: Sequence[ListedRun], now: datetime, layout: Layout) -> str:
    """Return a line for each run: status, id, age, landed actions, cost, request."""
    return "\n".join(_line(run, now, layout) for run in runs)


def _line(run: ListedRun, now: datetime, layout: Layout) -> str:
    age = ago(now - run.updated_at)
    landed = f"{run.landed}/{run.actions} landed"
    facts = f"{age:<10}{landed:<14}{format_cost(run.cost_usd):<14}"
    start = f"{status_mark(run.status)} {pad(run.status, STATUS_CELLS)}  {run.id}  {facts}"
    used = STATUS_CELLS + len(run.id) + len(facts) + 6
    return f"{start}{layout.cut(run.request, used)}".rstrip()


def queue_text(view: RunView, layout: Layout) -> str:
    """Return a line for each candidate that waits to land."""
    actions = {action.id: action for action in view.actions}
    lines: list[str] = []
    for attempt in view.queue:
        action = actions[attempt.action_id]
        note = f"attempt {attempt.number}, {attempt.phase} since {local_time(action.updated_at, view.summary.at)}"
        lines += layout.wrap(f"  {status_mark('landing')} ", f"{action.key}  {note}")
    return "\n".join(lines)
