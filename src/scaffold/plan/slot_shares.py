"""How the agents of a run are shared among its goals: each goal gets the next slot in turn, and landing keeps up."""

from collections.abc import Callable, Iterable, Mapping
from heapq import heapify, heappop, heappush

from msgspec import Struct

from scaffold.core.ids import GoalId

CANDIDATES_PER_AGENT = 2
"""How many candidates may wait to land for each agent of the run; more would only grow old and conflict."""


class SlotUse(Struct, frozen=True, kw_only=True):
    """The attempts of a goal that are not candidates yet, and their slots; and how many candidates there are."""

    working: int = 0
    """How many attempts there are, with those that wait for a human."""
    held: int = 0
    """How many of them hold a slot: all but those that wait, for a human or for a slot to go on."""
    taken: int = 0
    """How many slots no other attempt may take: those held, and one for each attempt that a human has answered."""
    candidates: int = 0
    """How many have not landed, including one that is landing."""


class SlotDemand(Struct, frozen=True, kw_only=True):
    """An active goal with ready primitives."""

    goal: GoalId
    working: int
    """How many slots it takes."""
    wanted: int
    """How many more slots the goal could use now: its ready primitives, limited by its own cap."""
    served: int
    """When it last got a slot, as a number that grows with time; 0 for never."""


def free_slots(agents: int, *, taken: int, unlanded: int) -> int:
    """Return the number of attempts that may start in a run of `agents` with `taken` slots.

    `unlanded` counts all open attempts: each is a candidate that waits to land, or may become one.
    """
    # Agents that work faster than candidates land only make conflicts.
    return max(0, min(agents - taken, CANDIDATES_PER_AGENT * agents - unlanded))


def share_slots(demands: Iterable[SlotDemand], free: int, can_start: Callable[[GoalId], bool]) -> Mapping[GoalId, int]:
    """Return the share of the `free` slots that each goal may take now, without goals that get none.

    Each slot goes to the goal that holds the fewest, of these to the one that has waited longest, so no goal waits
    while another one gets a second slot beyond its share. No slot stays free while a goal can use one.
    `can_start` says whether the goal can use one more slot beside those that were given so far; it is asked only for
    the goal whose turn it is, once for each slot. A goal that cannot is left out from then on.
    """
    shares: dict[GoalId, int] = {}
    # Position breaks ties, so that goals are never compared themselves.
    turns = [(each.working, each.served, place, each) for place, each in enumerate(demands) if each.wanted > 0]
    heapify(turns)
    now = max((each.served for *_, each in turns), default=0)
    while free > 0 and turns:
        working, _, place, demand = heappop(turns)
        if not can_start(demand.goal):
            continue
        # `now` rises with each slot, so that a goal that got one is behind those that wait.
        free, now, taken = free - 1, now + 1, shares.get(demand.goal, 0) + 1
        shares[demand.goal] = taken
        if taken < demand.wanted:
            heappush(turns, (working + 1, now, place, demand))
    return shares
