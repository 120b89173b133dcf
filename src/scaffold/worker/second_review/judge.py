"""Have the second reviewer judge work that passed its checks, if it needs that."""

import hashlib
from collections.abc import Sequence

from scaffold.core.contract import ChangeReview, Contract, Verification
from scaffold.core.ids import Commit
from scaffold.core.run_settings import ReviewerSettings
from scaffold.git import commits, worktree
from scaffold.policy.path.protected_areas import ProtectedAreas
from scaffold.worker.attempt_context import AttemptContext
from scaffold.worker.protected_review import paths_for_reviewer
from scaffold.worker.second_review.base_tests import base_tests_in_doubt
from scaffold.worker.second_review.decision import (
    ChangeScope,
    changed_packages,
    is_sampled,
    only_asks_for_place,
    review_reasons,
    with_review,
)
from scaffold.worker.second_review.prompts import change_prompt
from scaffold.worker.second_review.reviewer import ReviewQuestion, YesNoReviewer

DIFF_BYTES = 128 * 1024
"""Bytes of the change's diff; the prompt cuts it further."""


class ChangeJudge:
    """Judges the changes of one attempt. A verdict about the same change is given once, in whatever attempt."""

    def __init__(self, context: AttemptContext, reviewer: YesNoReviewer, settings: ReviewerSettings) -> None:
        self._context = context
        self._reviewer = reviewer
        self._settings = settings
        self._given: list[ChangeReview] = []
        """The verdicts of this attempt; its row keeps the latest only."""

    async def judged(self, passed: Verification, contract: Contract | None) -> Verification:
        """Return the verification with the reviewer's verdict: reviewed, or failed for what the reviewer found.

        Unchanged if the work needs no second review, or if there is no usable verdict.
        """
        base, head = self._context.workspace.base, passed.commit
        scope = await self._scope(head)
        task, share = self._context.task, self._settings.share
        sampled = is_sampled(task.run.id, task.action.key, share)
        reasons = review_reasons(passed.doubts, scope, sampled=sampled)
        if not reasons:
            return passed
        change = await change_hash(self._context, head)
        review = self._known(base, change, passed) or await self._asked(passed, contract, change, reasons)
        if review is None:
            return passed
        self._given.append(review)
        human_decides = only_asks_for_place(passed.doubts, scope, reasons)
        judged = with_review(passed, review, human_decides=human_decides)
        # Stored at once: a verdict that was paid for survives this process.
        self._context.record.enter("critiquing", verification=judged)
        return judged

    async def _scope(self, head: Commit) -> ChangeScope:
        git, base = self._context.workspace.git, self._context.workspace.base
        areas = ProtectedAreas.with_added(self._context.task.run.settings.permissions.areas)
        paths = await commits.changed_paths(git, base, head)
        return ChangeScope(
            lines=await commits.changed_line_count(git, base, head),
            packages=len(changed_packages(paths)),
            protected=tuple(filter(areas.of, paths)),
            asked_about=paths_for_reviewer(self._context, paths),
        )

    def _known(self, base: Commit, change: str, passed: Verification) -> ChangeReview | None:
        """Return the verdict that was given about the same change, by this attempt or an earlier one."""
        earlier = self._context.run_context.store.attempts.of_action(self._context.task.action.id)
        stored = (each.verification.review for each in earlier if each.verification is not None)
        reviews = (*self._given, *(each for each in stored if each is not None))
        return next((each for each in reversed(reviews) if each.holds_for(base, change, passed.doubts)), None)

    async def _asked(
        self, passed: Verification, contract: Contract | None, change: str, reasons: Sequence[str]
    ) -> ChangeReview | None:
        context, git, base = self._context, self._context.workspace.git, self._context.workspace.base
        context.record.enter("critiquing", verification=passed)
        # The reviewer reads the work as it would land, not what the checks left behind.
        await worktree.restore(git, passed.commit)
        prompt = change_prompt(
            context.task.action,
            contract,
            passed,
            reasons=reasons,
            tests=await base_tests_in_doubt(git, base, passed),
            diff=await commits.diff_text(git, base, passed.commit, limit_bytes=DIFF_BYTES),
        )
        paths = await commits.changed_paths(git, base, passed.commit)
        review = await self._reviewer.ask(
            ReviewQuestion(event="change", prompt=prompt, work=passed.commit, paths=paths)
        )
        if review is None:
            return None
        return ChangeReview(
            review=review,
            model=self._settings.model.name,
            base=base,
            change=change,
            doubts=tuple(doubt.code for doubt in passed.doubts),
        )


async def change_hash(context: AttemptContext, head: Commit) -> str:
    """Return the hash of the attempt's change: the same for the same paths, modes and blobs before and after."""
    fingerprint = await commits.patch_fingerprint(context.workspace.git, context.workspace.base, head)
    return hashlib.sha256(fingerprint).hexdigest()
