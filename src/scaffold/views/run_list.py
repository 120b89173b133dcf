"""The runs of a repository as a list, for people and as JSON."""

from collections import Counter
from collections.abc import Collection
from datetime import datetime

from msgspec import Struct

from scaffold.core.ids import RunId
from scaffold.core.model import Run
from scaffold.views.store_reader import StoreAccess, display_status, is_executed


class ListedRun(Struct, frozen=True, kw_only=True):
    """One run; its fields are those of the JSON."""

    id: RunId
    request: str
    status: str
    is_executed: bool
    """Whether a living process executes it."""
    base_branch: str | None
    session_branch: str
    created_at: datetime
    updated_at: datetime
    goals: int
    actions: int
    """Without steps of compounds, which land as one."""
    landed: int
    """The number of completed actions."""
    taken: bool = False
    """Whether its base branch or a pull request has work of it, as `views/changes/taken_work.py` says."""
    tokens: int
    cost_usd: float | None


def read_runs(reader: StoreAccess, statuses: Collection[str] = ()) -> tuple[ListedRun, ...]:
    """Return the runs, the one touched last first; with `statuses`, only runs in one of them."""
    with reader.store.snapshot():
        runs = reader.store.runs.all()
        return tuple(_listed_run(reader, run) for run in runs if not statuses or display_status(run) in statuses)


def _listed_run(reader: StoreAccess, run: Run) -> ListedRun:
    store, spent = reader.store, reader.store.runs.spent(run.id)
    goals = store.goals.for_run(run.id)
    tallies = [Counter(store.actions.tally(goal.id)) - Counter(store.actions.tally_steps(goal.id)) for goal in goals]
    return ListedRun(
        id=run.id,
        request=run.request,
        status=display_status(run),
        is_executed=is_executed(run),
        base_branch=run.base_branch,
        session_branch=run.session_branch,
        created_at=run.created_at,
        updated_at=run.updated_at,
        goals=len(goals),
        actions=sum(tally.total() for tally in tallies),
        landed=sum(tally["completed"] for tally in tallies),
        tokens=spent.tokens,
        cost_usd=spent.cost_usd,
    )
