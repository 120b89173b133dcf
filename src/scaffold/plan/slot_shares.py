"""How the agents of a run are shared among its goals: each goal gets the next slot in turn, and landing keeps up."""

from collections.abc import Callable, Iterable, Mapping
from heapq import heapify, heappop, heappush

from msgspec import Struct

from scaffold.core.ids import GoalId

CANDIDATES_PER_AGENT = 2
"""How many candidates may wait to land for each agent of the run; more would only grow old and conflict."""


class SlotDemand(Struct, frozen=True, kw_only=True):
    """An active goal with ready primitives."""

    goal: GoalId
    working: int
    """How many slots it holds."""
    wanted: int
    """How many more slots the goal could use now: its ready primitives, limited by its own cap."""
    served: int
    """When it last got a slot, as a number that grows with time; 0 for never."""


def free_slots(agents: int, *, working: int, candidates: int) -> int:
    """Return how many attempts may start in a run of so many `agents`.

    `working` attempts hold a slot; each may become a candidate, so they count together with the `candidates` that wait
    to land.
    """
    return max(0, min(agents - working, CANDIDATES_PER_AGENT * agents - working - candidates))


def share_slots(
    demands: Iterable[SlotDemand], free: int, still_needed: Callable[[GoalId], bool]
) -> Mapping[GoalId, int]:
    """Return how many of `free` slots each goal may take now; goals that may take none are omitted.

    Each slot goes to the goal that holds the fewest, of these to the one that has waited longest, so no goal waits
    while another one gets a second slot beyond its share. No slot stays free while a goal wants one.
    `still_needed` says whether a goal is not reached yet; it is asked only for goals whose turn it is.
    """
    shares: dict[GoalId, int] = {}
    turns = [(each.working, each.served, place, each) for place, each in enumerate(demands) if each.wanted > 0]
    heapify(turns)
    now = max((each.served for *_, each in turns), default=0)
    while free > 0 and turns:
        working, _, place, demand = heappop(turns)
        taken = shares.get(demand.goal, 0)
        if not taken and not still_needed(demand.goal):
            continue
        free, now, taken = free - 1, now + 1, taken + 1
        shares[demand.goal] = taken
        if taken < demand.wanted:
            heappush(turns, (working + 1, now, place, demand))
    return shares
