"""What one step of a merge queue did, and how a candidate ends that lands no commit: refused, or recorded."""

from pathlib import Path

from msgspec import Struct

from scaffold.core.errors import StaleFence
from scaffold.core.events import CandidateMerged
from scaffold.core.ids import AttemptId, Commit
from scaffold.core.landing.conflict import FileMerge
from scaffold.core.model import Attempt, Run
from scaffold.core.states import AttemptOutcome
from scaffold.landing.facts.landing_record import record_without_commit
from scaffold.landing.facts.story_steps import add_rebase_step, record_step
from scaffold.run.attempts.lease import owner_transaction
from scaffold.run.context import RunContext
from scaffold.run.failures.attempt_end import AttemptEnd, record_attempt_end
from scaffold.run.failures.escalation_question import ask_about_conflict


class BatchLanded(Struct, frozen=True, tag="landed"):
    """The work of these attempts is on the session branch, whose tip is now `commit`; their effects are facts."""

    commit: Commit
    attempts: tuple[AttemptId, ...]


class ReviewRecorded(Struct, frozen=True, tag="recorded"):
    """A review's approval was recorded, and its effects are facts; there was nothing to land."""

    reviewed: Commit


class StepRecorded(Struct, frozen=True, tag="step"):
    """A step was recorded; its work lands later."""

    attempt: AttemptId


class CandidateRefused(Struct, frozen=True, tag="refused"):
    """The candidate did not land; its work stays pinned, and its action is pending again or failed."""

    outcome: AttemptOutcome
    why: str
    merged: tuple[FileMerge, ...] = ()
    """The outcome of each file that it and landed work both changed, if one was in conflict."""


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


def end_candidate(context: RunContext, run: Run, attempt: Attempt, refused: CandidateRefused) -> CandidateRefused:
    """Return a refused candidate to its action; its work stays pinned. Returns the refusal without secrets."""
    why, store = context.redactor.clean(refused.why), context.store
    action = store.actions.get(attempt.action_id)
    end = AttemptEnd(refused.outcome, why)
    try:
        with owner_transaction(store, run, durable=True):
            record_attempt_end(store, run, attempt.id, end, head=attempt.head_sha)
            explained = "\n".join(each.line for each in refused.merged if each.status == "explained")
            if refused.outcome == "conflict" and not add_rebase_step(context, attempt, why) and explained:
                ask_about_conflict(store, run, attempt.id, explained)
            if action is not None and refused.merged:
                store.events.append(run.id, CandidateMerged(action.key, refused.merged))
    except StaleFence:
        if not _was_cancelled(context, attempt):
            raise
        return CANCELLED
    return CandidateRefused(refused.outcome, why, refused.merged)


async def record_candidate(
    context: RunContext, run: Run, attempt: Attempt
) -> ReviewRecorded | StepRecorded | CandidateRefused:
    """Record a step, or a candidate without a commit; if the reviewed code has changed since, it is reviewed again."""
    action = context.store.actions.get(attempt.action_id)
    if action is None:
        raise LookupError(attempt.id)
    try:
        if attempt.kind == "step" or attempt.edits:
            await record_step(context, run, attempt, action)
            return StepRecorded(attempt.id)
        outdated = await record_without_commit(context, run, attempt, action)
    except StaleFence:
        if not _was_cancelled(context, attempt):
            raise
        return CANCELLED
    if outdated is None:
        return ReviewRecorded(attempt.base_sha)
    return end_candidate(context, run, attempt, CandidateRefused("conflict", outdated))


def _was_cancelled(context: RunContext, attempt: Attempt) -> bool:
    # Otherwise another process owns the run.
    now = context.store.attempts.get(attempt.id)
    return now is not None and now.outcome == "cancelled"
