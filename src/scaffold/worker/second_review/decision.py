"""Decide whether a change needs a second review, and what its verdict means. Pure."""

import hashlib
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from scaffold.core.ids import ActionKey, RunId
from scaffold.core.printable_text import count_of, join_limited
from scaffold.core.proof.contract import ChangeReview, CheckResult, Doubt, Verification
from scaffold.verify.contract.review_verdict import review_text
from scaffold.verify.paths.conventions import is_test
from scaffold.verify.regression.selection.test_selection import LANGUAGE_FAMILIES

SECOND_REVIEW = "second review"
"""The name of the check result of a rejection."""
MAX_LINES = 200
"""Changed lines above which a change is large."""
MAX_PACKAGES = 3
"""Packages with changed code above which a change is widespread."""
MAX_PATHS_NAMED = 5
HASH_BITS = 256

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


def review_reasons(doubts: Sequence[Doubt], scope: ChangeScope, *, sampled: bool) -> tuple[str, ...]:
    """Return why a change that passed needs a second review, as phrases; empty if it needs none.

    A doubt always does, and so does a place that needs approval. Size and place alone do only if the change is
    `sampled`.
    """
    reasons = [doubt.text for doubt in doubts]
    if scope.asked_about:
        reasons.append(f"only the plan, which a model wrote, allows changes of {_named(scope.asked_about)}")
    elif sampled and scope.protected:
        reasons.append(f"it changes protected areas: {_named(scope.protected)}")
    if sampled and scope.lines > MAX_LINES:
        reasons.append(f"it is large: {count_of(scope.lines, 'changed line')}")
    if sampled and scope.packages > MAX_PACKAGES:
        reasons.append(f"it is widespread: code in {scope.packages} packages")
    return tuple(reasons)


def only_asks_for_place(doubts: Sequence[Doubt], scope: ChangeScope, reasons: Sequence[str]) -> bool:
    """Return True if the change is reviewed only because it touches a place that needs approval."""
    return bool(scope.asked_about) and not doubts and len(reasons) == 1


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


def _named(paths: Sequence[str]) -> str:
    return join_limited(paths, MAX_PATHS_NAMED)
