"""Evidence for an action's effects: check results, gates and human decisions, never an agent's claim."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from scaffold.core.change_approval import approval_of
from scaffold.core.ids import AttemptId, Commit
from scaffold.core.landing.conflict import FileMerge
from scaffold.core.model import Attempt, Evidence, InboxItem
from scaffold.core.proof.contract import ChangeReview, CheckResult, Verification
from scaffold.core.proof.gates import GateResult
from scaffold.plan.compliance.verdicts import AUDIT, audit_of
from scaffold.verify.contract.check_runs import STEP_CHECK
from scaffold.verify.contract.review_verdict import REVIEW, audit_text, review_in, review_text
from scaffold.verify.gates.refusals import describe_refused

CHANGE_CHECK = "change"
"""The name of the check result of an action that only had to change something."""


def evidence_of(
    verification: Verification,
    attempt: AttemptId | None,
    shown_at: Commit,
    at: datetime,
    approved: Iterable[InboxItem] = (),
    *,
    gates_at: Commit | None = None,
) -> tuple[Evidence, ...]:
    """Return as evidence the passed checks, the gates that did not block, and what reviewers and humans approved.

    The gates ran at `gates_at`, if that is another commit: the tip of what landed together.
    """
    passed = [result for result in verification.results if result.verdict == "pass"]
    applied = [gate for gate in verification.gates if gate.counts_for_work]
    second = [verification.review] if verification.review and verification.review.approves else []
    return (
        *(_check_evidence(result, attempt, shown_at, at) for result in passed),
        *(_gate_evidence(gate, attempt, gates_at or shown_at, at) for gate in applied),
        *(_review_evidence(review, attempt, shown_at, at) for review in second),
        *(_approval_evidence(item, attempt, shown_at) for item in approved),
        *(_merge_evidence(verification.merged, attempt, shown_at, at) for _ in verification.merged[:1]),
    )


def _merge_evidence(merged: Sequence[FileMerge], attempt: AttemptId | None, shown_at: Commit, at: datetime) -> Evidence:
    files = "; ".join(each.line for each in merged)
    detail = f"it was in conflict with what had landed, and the merge was checked: {files}"
    return Evidence(
        kind="merge", command=None, exit_code=None, commit=shown_at, at=at, detail=detail, attempt_id=attempt
    )


def approvals_of(attempt: Attempt, approved: Sequence[InboxItem]) -> Iterator[InboxItem]:
    """Yield the approvals the attempt's work depends on: of its change, or of protected paths and lost tests."""
    if (whole := approval_of(attempt.id, approved)) is not None:
        yield whole
    for item in approved:
        if item is whole or "landing" in item.detail:
            continue
        # An approval is for one change of one base; on another base the same action may have made another change.
        subject = item.detail.get("protected") or item.detail.get("lost")
        if subject and item.detail.get("base") == attempt.base_sha:
            yield item


def describe_gate(gate: GateResult) -> str:
    """Return a gate's result in one line: `test: pass, 1 removed, 12 pass, 1 pre_existing, focused`.

    Tests that the sandbox keeps from passing are named.
    """
    fates = Counter(gate.base_tests.values())
    counts = (*((fate, fates[fate]) for fate in ("removed", "changed", "lost")), *gate.counts.items())
    shown = [f"{count} {verdict}" for verdict, count in counts if count]
    refused = [describe_refused(gate.refused)] if gate.refused else []
    focused = ["focused"] if gate.focused else []
    return ", ".join([f"{gate.gate.name}: {gate.verdict}", *shown, *focused, *refused])


def _check_evidence(result: CheckResult, attempt: AttemptId | None, shown_at: Commit, at: datetime) -> Evidence:
    if result.name == REVIEW:
        opinion = review_text(review_in(result))
        return Evidence(
            kind="review", command=None, exit_code=None, commit=shown_at, at=at, detail=opinion, attempt_id=attempt
        )
    if result.name == AUDIT:
        said = audit_text(audit_of(result))
        return Evidence(
            kind="audit", command=None, exit_code=None, commit=shown_at, at=at, detail=said, attempt_id=attempt
        )
    if result.name == STEP_CHECK:
        return Evidence(
            kind="step", command=None, exit_code=None, commit=shown_at, at=at, detail=result.detail, attempt_id=attempt
        )
    return Evidence(
        kind="change" if result.name == CHANGE_CHECK else "contract",
        command=result.name,
        exit_code=result.exit_code,
        commit=shown_at,
        at=at,
        detail=result.detail,
        output_hash=result.output_hash,
        attempt_id=attempt,
    )


def _gate_evidence(gate: GateResult, attempt: AttemptId | None, shown_at: Commit, at: datetime) -> Evidence:
    return Evidence(
        kind="gate",
        command=gate.gate.command,
        exit_code=gate.exit_code,
        commit=shown_at,
        at=at,
        detail=describe_gate(gate),
        output_hash=gate.output_hash,
        attempt_id=attempt,
    )


def _review_evidence(review: ChangeReview, attempt: AttemptId | None, shown_at: Commit, at: datetime) -> Evidence:
    detail = f"second review by {review.model}: {review_text(review.review)}"
    return Evidence(
        kind="review", command=None, exit_code=None, commit=shown_at, at=at, detail=detail, attempt_id=attempt
    )


def _approval_evidence(item: InboxItem, attempt: AttemptId | None, shown_at: Commit) -> Evidence:
    because = f": {item.answer}" if item.answer else ""
    return Evidence(
        kind="human",
        command=None,
        exit_code=None,
        commit=shown_at,
        at=item.decided_at or item.created_at,
        detail=f"approved as {item.id}{because}\n{item.text}",
        attempt_id=attempt,
    )
