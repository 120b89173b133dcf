"""Decide whether work that passed needs a second review, and what the verdict means for it."""

import hashlib
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from scaffold.core.ids import ActionKey, RunId
from scaffold.core.printable_text import count_of, join_limited
from scaffold.core.proof.contract import ChangeReview, CheckResult, Contract, Doubt, Verification, open_doubts
from scaffold.core.proof.reviewer_record import GivenVerdict
from scaffold.core.run_settings import ReviewerSettings
from scaffold.git import commits
from scaffold.git.added_lines import changed_line_count
from scaffold.git.checkouts import worktree
from scaffold.plan.review_rates import unreliable_text
from scaffold.policy.path.protected_areas import ProtectedAreas
from scaffold.run.learning.stores import reviewer_standing
from scaffold.verify.contract.review_verdict import review_text
from scaffold.verify.paths.conventions import is_test
from scaffold.verify.regression.selection.test_selection import LANGUAGE_FAMILIES
from scaffold.worker.attempt_records import AttemptRecords
from scaffold.worker.human.protected_review import change_hash, paths_for_reviewer
from scaffold.worker.second_review.review_agent import ReviewEvent, ReviewQuestion, YesNoReviewer
from scaffold.worker.second_review.reviewer_prompts import (
    ReviewSubject,
    base_tests_in_doubt,
    change_prompt,
    losses_prompt,
)
from scaffold.worker.workspace.attempt_worktree import AttemptWorkspace

SECOND_REVIEW = "second review"
"""The name of the check result of a rejection."""
MAX_LINES = 200
"""Changed lines above which a change is large."""
MAX_PACKAGES = 3
"""Packages with changed code above which a change is widespread."""
MAX_PATHS_NAMED = 5
HASH_BITS = 256
DIFF_BYTES = 128 * 1024
"""Bytes of the change's diff; the prompt cuts it further."""
_REJECTED = (
    "A second reviewer read the change and rejects it. Repair what it names. If it is wrong, leave the change as it is "
    "and say why; the change then does not land."
)


class ChangeScope(Struct, frozen=True, kw_only=True):
    """The size of a change, and the sensitive places that it touches."""

    lines: int
    packages: int
    protected: tuple[str, ...] = ()
    """The changed paths in protected areas."""
    asked_about: tuple[str, ...] = ()
    """Those of them that land only if the reviewer or a human agrees, because only a model declared them."""


class ChangeJudge:
    """Judges the changes of one attempt. A verdict about the same change is given once, in whatever attempt."""

    def __init__(
        self, workspace: AttemptWorkspace, records: AttemptRecords, reviewer: YesNoReviewer, settings: ReviewerSettings
    ) -> None:
        self._workspace = workspace
        self._records = records
        self._reviewer = reviewer
        self._settings = settings
        self._standing = reviewer_standing(settings.model.name, records.run_context.clock)
        self._given: list[ChangeReview] = []
        """The verdicts of this attempt; its row keeps the latest only."""

    async def judged(self, passed: Verification, contract: Contract | None) -> Verification:
        """Return the verification with the reviewer's verdict: reviewed, or failed for what the reviewer found.

        Unchanged without a need for a review, or without a usable verdict.
        """
        git, base, head = self._workspace.git, self._workspace.base, passed.commit
        areas = ProtectedAreas.with_added(self._records.task.run.settings.permissions.areas)
        paths = await commits.changed_paths(git, base, head)
        scope = ChangeScope(
            lines=await changed_line_count(git, base, head),
            packages=len(changed_packages(paths)),
            protected=tuple(filter(areas.area_of, paths)),
            asked_about=paths_for_reviewer(self._records, paths),
        )
        task, share = self._records.task, self._settings.share
        sampled = is_sampled(task.run.id, task.action.key, share)
        reasons = review_reasons(passed.doubts, scope, sampled=sampled)
        if not reasons:
            return passed
        review = await self._change_verdict("change", passed, contract, reasons, lost=passed.accepted)
        if review is None:
            return passed
        human_decides = only_asks_for_place(passed.doubts, scope, reasons)
        return self._store_verdict(with_review(passed, review, human_decides=human_decides))

    async def judged_losses(
        self, found: Verification, contract: Contract | None, lost: tuple[str, ...]
    ) -> Verification:
        """Return the verification, which only the `lost` tests block, with the reviewer's verdict about their loss.

        Unchanged without a usable verdict. After an approval, verify the work again without these tests.
        """
        review = await self._change_verdict("lost_tests", found, contract, (), lost=lost)
        if review is None:
            return found
        if review.review.verdict == "reject":
            return self._store_verdict(with_review(found, review))
        if not review.approves:
            return found
        return self._store_verdict(msgspec.structs.replace(found, review=review, accepted=lost))

    def _store_verdict(self, judged: Verification) -> Verification:
        # Stored at once: a verdict that was paid for must survive this process.
        self._records.enter("critiquing", verification=judged)
        return judged

    async def _change_verdict(
        self,
        event: ReviewEvent,
        found: Verification,
        contract: Contract | None,
        reasons: Sequence[str],
        *,
        lost: tuple[str, ...],
    ) -> ChangeReview | None:
        change = await change_hash(self._workspace, found.commit)
        base, earlier = self._workspace.base, self._records.store.attempts.for_action(self._records.task.action.id)
        stored = (each.verification.review for each in earlier if each.verification is not None)
        reviews = (*self._given, *(each for each in stored if each is not None))
        review = next((each for each in reversed(reviews) if each.holds_for(base, change, found.doubts, lost)), None)
        if review is None:
            review = await self._ask_reviewer(event, found, contract, reasons, change=change, lost=lost)
        if review is not None:
            self._given.append(review)
        return review

    async def _ask_reviewer(
        self,
        event: ReviewEvent,
        found: Verification,
        contract: Contract | None,
        reasons: Sequence[str],
        *,
        change: str,
        lost: tuple[str, ...],
    ) -> ChangeReview | None:
        records, git, base = self._records, self._workspace.git, self._workspace.base
        records.enter("critiquing", verification=found)
        # The reviewer reads the work as it would land, not what the checks left behind.
        await worktree.restore(git, found.commit)
        subject = ReviewSubject(
            action=records.task.action,
            contract=contract,
            verification=found,
            tests=await base_tests_in_doubt(git, base, found),
            diff=await commits.diff_text(git, base, found.commit, limit_bytes=DIFF_BYTES),
        )
        prompt = losses_prompt(subject) if event == "lost_tests" else change_prompt(subject, reasons)
        paths = await commits.changed_paths(git, base, found.commit)
        review = await self._reviewer.ask(ReviewQuestion(event=event, prompt=prompt, work=found.commit, paths=paths))
        if review is None:
            return None
        name = self._settings.model.name
        given = GivenVerdict(
            attempt_id=records.task.attempt.id,
            model=name,
            verdict=review.verdict,
            change=change,
            at=records.run_context.clock.now(),
        )
        with records.store.transaction():
            records.store.review_verdicts.add(records.task.run.id, records.task.action.id, given)
        if self._standing.is_unreliable and review.verdict == "approve":
            records.warn(unreliable_text(name, self._standing))
        return ChangeReview(
            review=review,
            model=name,
            counts=not self._standing.is_unreliable,
            base=base,
            change=change,
            doubts=tuple(doubt.code for doubt in found.doubts),
            lost=lost,
        )


def review_reasons(doubts: Sequence[Doubt], scope: ChangeScope, *, sampled: bool) -> tuple[str, ...]:
    """Return why a change that passed needs a second review, as phrases; empty if it needs none.

    A doubt always does, and so does a place that needs approval. Size and place alone do only if the change is
    `sampled`.
    """
    reasons = [doubt.text for doubt in open_doubts(doubts)]
    if scope.asked_about:
        reasons.append(f"only the plan, which a model wrote, allows changes of {_path_names(scope.asked_about)}")
    elif sampled and scope.protected:
        reasons.append(f"it changes protected areas: {_path_names(scope.protected)}")
    if sampled and scope.lines > MAX_LINES:
        reasons.append(f"it is large: {count_of(scope.lines, 'changed line')}")
    if sampled and scope.packages > MAX_PACKAGES:
        reasons.append(f"it is widespread: code in {scope.packages} packages")
    return tuple(reasons)


def only_asks_for_place(doubts: Sequence[Doubt], scope: ChangeScope, reasons: Sequence[str]) -> bool:
    """Return True if the change is reviewed only because it touches a place that needs approval."""
    return bool(scope.asked_about) and not open_doubts(doubts) and len(reasons) == 1


def is_sampled(run: RunId, action: ActionKey, share: float) -> bool:
    """Return whether an action of a run is in the share that is reviewed for its size or place.

    The same for each attempt and each process, so that no repetition changes it.
    """
    digest = hashlib.sha256(f"{run}/{action}".encode()).digest()
    return bool(int.from_bytes(digest, "big") < share * float(2**HASH_BITS))


def changed_packages(paths: Iterable[str]) -> frozenset[str]:
    """Return the folders that contain changed code, tests left out."""
    code = (path for path in paths if path.rpartition(".")[2] in LANGUAGE_FAMILIES and not is_test(path))
    return frozenset(path.rpartition("/")[0] for path in code)


def with_review(passed: Verification, review: ChangeReview, *, human_decides: bool = False) -> Verification:
    """Return the verification with the verdict: reviewed after an approval that counts, failed after a rejection.

    If a human is asked anyway, a rejection does not fail the work.
    """
    judged = msgspec.structs.replace(passed, review=review)
    if review.review.verdict == "approve":
        return msgspec.structs.replace(judged, reviewed=review.counts)
    if human_decides:
        return judged
    detail = f"{_REJECTED}\n\n{review_text(review.review)}"
    rejected = CheckResult(name=SECOND_REVIEW, verdict="fail", detail=detail)
    return msgspec.structs.replace(judged, results=(*judged.results, rejected))


def _path_names(paths: Sequence[str]) -> str:
    return join_limited(paths, MAX_PATHS_NAMED)
