"""The runs of a repository, and the queue of one, as text."""

from collections.abc import Sequence
from datetime import datetime

from scaffold.cli.render.style import status_mark
from scaffold.views.run_list import ListedRun
from scaffold.views.run_view import RunView
from scaffold.views.text_format import WIDTH, clip, clock_time, format_cost, pad, short_duration

STATUS_CELLS = len("interrupted")


def runs_text(runs: Sequence[ListedRun], now: datetime) -> str:
    """Return a line for each run: status, id, age, landed actions, cost, request."""
    return "\n".join(_line(run, now) for run in runs)


def _line(run: ListedRun, now: datetime) -> str:
    age = f"{short_duration(now - run.updated_at)} ago"
    landed = f"{run.landed}/{run.actions} landed"
    facts = f"{age:<10}{landed:<14}{format_cost(run.cost_usd):<14}"
    start = f"{status_mark(run.status)} {pad(run.status, STATUS_CELLS)}  {run.id}  {facts}"
    return f"{start}{clip(run.request, max(20, WIDTH - 2 - STATUS_CELLS - 2 - len(run.id) - 2 - len(facts)))}".rstrip()


def queue_text(view: RunView) -> str:
    """Return a line for each candidate that waits to land."""
    actions = {action.id: action for action in view.actions}
    lines = []
    for attempt in view.queue:
        action = actions[attempt.action_id]
        note = f"attempt {attempt.number}, {attempt.phase} since {clock_time(action.updated_at)}"
        lines.append(f"  {status_mark('landing')} {clip(action.key, WIDTH - len(note) - 6)}  {note}")
    return "\n".join(lines)
