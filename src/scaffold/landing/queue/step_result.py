"""What one step of a merge queue did."""

from pathlib import Path

from msgspec import Struct

from scaffold.core.ids import AttemptId, Commit
from scaffold.core.landing.conflict import FileMerge
from scaffold.core.states import AttemptOutcome


class BatchLanded(Struct, frozen=True, tag="landed"):
    """The work of these attempts is on the session branch, whose tip is `commit` now, and their effects are facts."""

    commit: Commit
    attempts: tuple[AttemptId, ...]


class ReviewRecorded(Struct, frozen=True, tag="recorded"):
    """A review's approval was recorded, and its effects are facts; there was nothing to land."""

    reviewed: Commit


class StepRecorded(Struct, frozen=True, tag="step"):
    """A step was recorded, towards work that lands later."""

    attempt: AttemptId


class CandidateRefused(Struct, frozen=True, tag="refused"):
    """The candidate did not land; its work stays pinned, and its action is pending again or failed."""

    outcome: AttemptOutcome
    why: str
    merged: tuple[FileMerge, ...] = ()
    """What became of each file that it and what has landed both changed, if one was in conflict."""


class BranchHeld(Struct, frozen=True, tag="held"):
    """Nothing can land while the session branch is checked out at `path`."""

    path: Path


class FactsSettled(Struct, frozen=True, tag="settled"):
    """No candidate can land; stale facts were rechecked."""


class QueueIdle(Struct, frozen=True, tag="idle"):
    """No candidate can land, and no stale fact waits."""


CANCELLED = CandidateRefused("cancelled", "it was cancelled while it waited to land")
WORK_GONE = "its work is no longer in the repository, or the ref that kept it was moved or deleted by another process"

QueueStep = BatchLanded | ReviewRecorded | StepRecorded | CandidateRefused | BranchHeld | FactsSettled | QueueIdle
