"""Stored records of second reviewers: verdicts with their outcomes, and results on planted faults."""

from datetime import datetime
from typing import Literal

from msgspec import Struct

from scaffold.core.ids import ActionKey, AttemptId, RunId

VerdictWord = Literal["approve", "reject"]
HumanWord = Literal["", "approved", "rejected"]
Fate = Literal["", "landed", "overturned"]
"""Of a change that was judged: nothing yet | it landed, and stands | the verdict was wrong: an approved change was
reverted or is done again, a rejected one landed because a human approved it."""


class GivenVerdict(Struct, frozen=True, kw_only=True):
    """A verdict of a second reviewer about one change of an attempt."""

    attempt_id: AttemptId
    model: str
    """The model string of the reviewer."""
    verdict: VerdictWord
    change: str
    """SHA-256 of the change's paths, modes and blobs before and after."""
    at: datetime


class VerdictOutcome(Struct, frozen=True, kw_only=True):
    """A verdict with what humans and later events said about it."""

    run_id: RunId
    action: ActionKey
    given: GivenVerdict
    human: HumanWord = ""
    """A human's decision about the same change; empty if nobody was asked."""
    fate: Fate = ""

    @property
    def agrees(self) -> bool | None:
        """Whether a human decided the same; None if none decided."""
        if not self.human:
            return None
        return (self.human == "approved") == (self.given.verdict == "approve")


class ProbeAnswer(Struct, frozen=True, kw_only=True):
    """A reviewer's verdict on a landed change that was shown to it with or without a planted fault."""

    id: str
    model: str
    kind: str
    """The kind of the fault; empty for a change without one."""
    verdict: Literal["approve", "reject", ""]
    """Empty if it gave none that counts."""
    located: bool = False
    """Whether it cites the fault's place."""
    at: datetime

    @property
    def is_planted(self) -> bool:
        """Whether there was a fault."""
        return bool(self.kind)
