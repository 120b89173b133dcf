"""How an attempt leaves its worker."""

from msgspec import Struct

from scaffold.core.ids import Commit
from scaffold.core.states import Outcome


class Handed(Struct, frozen=True, tag="handed"):
    """A candidate was handed in; a review's, or a tester's who changed nothing, is the commit it began with."""

    head: Commit


class GaveUp(Struct, frozen=True, tag="gave_up"):
    """The attempt ended by itself without a candidate."""

    outcome: Outcome
    error: str
    item: str | None = None
    """What it waits for in the inbox; None if it waits for no human."""
    for_good: bool = False
    """Whether another attempt at the same would be of no use."""
