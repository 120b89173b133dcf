"""One frame of a watched run: the run, its goals and its agents at a moment."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct, structs

from scaffold.core.model import Run, Usage
from scaffold.core.states import status_of
from scaffold.views.agent_list import AgentList, AgentRow
from scaffold.views.run_view import LIVE_STATUSES
from scaffold.views.store_reader import StoreAccess, display_status


class GoalProgress(Struct, frozen=True):
    """How one goal stands, in numbers."""

    name: str
    status: str
    held: int
    desired: int
    status_counts: Mapping[str, int]
    """How many of its actions have each status."""


class WatchFrame(Struct, frozen=True, kw_only=True):
    """All that one frame shows."""

    at: datetime
    run: Run
    status: str
    spent: Usage
    waiting: int
    """How many items of the inbox wait for a human."""
    goals: tuple[GoalProgress, ...]
    members: tuple[AgentRow, ...]

    @property
    def going_on(self) -> bool:
        """Tell whether there will be more to see."""
        return self.status in LIVE_STATUSES

    def without_ages(self) -> Any:
        """Return what two frames differ by that are worth two frames: all but the passing of time."""
        members = [
            (structs.replace(each, last_activity=None), each.last_activity and each.last_activity.text)
            for each in self.members
        ]
        return self.status, self.spent, self.waiting, self.goals, members


def read_frame(reader: StoreAccess, run: Run) -> WatchFrame:
    """Return how the run stands now; reads no more than a frame needs, however long the run is."""
    store = reader.store
    run = store.runs.get(run.id) or run
    return WatchFrame(
        at=reader.clock.now(),
        run=run,
        status=display_status(run),
        spent=store.runs.spent(run.id),
        waiting=len(store.inbox.open_of_run(run.id)),
        goals=tuple(
            GoalProgress(
                goal.name,
                status_of(goal.state),
                len(store.facts.holding(goal.id) & set(goal.desired)),
                len(goal.desired),
                store.actions.tally(goal.id),
            )
            for goal in store.goals.of_run(run.id)
        ),
        members=AgentList(reader, run).agents(),
    )
