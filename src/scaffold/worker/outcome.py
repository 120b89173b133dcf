"""The two endings of an attempt in its worker."""

from msgspec import Struct

from scaffold.core.ids import Commit


class CandidateReady(Struct, frozen=True):
    """A candidate was handed in; for a review, and for a tester that changed nothing, `head` is the base."""

    head: Commit
