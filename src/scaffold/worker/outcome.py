"""The two endings of an attempt in its worker."""

from msgspec import Struct

from scaffold.core.ids import Commit
from scaffold.core.states import AttemptOutcome


class CandidateReady(Struct, frozen=True, tag="handed"):
    """A candidate was handed in; for a review, and for a tester that changed nothing, `head` is the base."""

    head: Commit


class NoCandidate(Struct, frozen=True, tag="gave_up"):
    """The attempt ended without a candidate."""

    outcome: AttemptOutcome
    error: str
    item: str | None = None
    """The inbox item it waits for; None if it waits for no human."""
    for_good: bool = False
    """Whether another attempt would be useless."""
