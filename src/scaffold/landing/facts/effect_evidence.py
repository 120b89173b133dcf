"""Evidence for an action's effects: check results, gates, reviews and human decisions, never an agent's claim."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from scaffold.core.change_approval import approval_of
from scaffold.core.ids import AttemptId, Commit
from scaffold.core.model import Attempt, Evidence, InboxItem
from scaffold.core.proof.contract import CheckResult, Verification
from scaffold.core.proof.gates import GateResult
from scaffold.core.states import EvidenceKind
from scaffold.plan.compliance.verdicts import AUDIT, audit_of
from scaffold.verify.contract.check_runs import STEP_CHECK
from scaffold.verify.contract.review_verdict import REVIEW, audit_text, review_in, review_text
from scaffold.verify.gates.refusals import describe_refused
from scaffold.verify.regression.test_identity import describe_varying

MERGE_DETAIL = "it was in conflict with what had landed, and the merge was checked: "
CHANGE_CHECK = "change"
"""The check of an action that only had to change something."""


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

    The gates of candidates that landed together ran at their tip, `gates_at`; None means at `shown_at`.
    """
    passed = [result for result in verification.results if result.verdict == "pass"]
    applied = [gate for gate in verification.gates if gate.counts_for_work]
    second = [verification.review] if verification.review and verification.review.approves else []
    merged = "; ".join(each.line for each in verification.merged)
    return (
        *(_check_evidence(result, attempt, shown_at, at) for result in passed),
        *(
            Evidence(
                kind="gate",
                command=gate.gate.command,
                exit_code=gate.exit_code,
                commit=gates_at or shown_at,
                at=at,
                detail=describe_gate(gate),
                output_hash=gate.output_hash,
                attempt_id=attempt,
            )
            for gate in applied
        ),
        *(
            _plain_evidence(
                "review", f"second review by {each.model}: {review_text(each.review)}", attempt, shown_at, at
            )
            for each in second
        ),
        *(
            _plain_evidence(
                "human",
                f"approved as {item.id}{f': {item.answer}' if item.answer else ''}\n{item.text}",
                attempt,
                shown_at,
                item.decided_at or item.created_at,
            )
            for item in approved
        ),
        *([_plain_evidence("merge", MERGE_DETAIL + merged, attempt, shown_at, at)] if merged else []),
    )


def approvals_of(attempt: Attempt, approved: Sequence[InboxItem]) -> Iterator[InboxItem]:
    """Yield the approvals that the attempt's work depends on: of its change, or of protected paths and lost tests."""
    if (whole := approval_of(attempt.id, approved)) is not None:
        yield whole
    for item in approved:
        if item is whole or "landing" in item.detail:
            continue
        # An approval holds for one base: on another one the same action may have made another change.
        subject = item.detail.get("protected") or item.detail.get("lost")
        if subject and item.detail.get("base") == attempt.base_sha:
            yield item


def describe_gate(gate: GateResult) -> str:
    """Return a gate's result in one line: `test: pass, 1 removed, 12 pass, 1 pre_existing, focused`.

    Names the tests that cannot pass in the sandbox, and those whose names vary.
    """
    fates = Counter(gate.base_tests.values())
    counts = (*((fate, fates[fate]) for fate in ("removed", "changed", "lost")), *gate.counts.items())
    shown = [f"{count} {verdict}" for verdict, count in counts if count]
    refused = [describe_refused(gate.refused)] if gate.refused else []
    focused = ["focused"] if gate.focused else []
    varying = [describe_varying(gate.varying)] if gate.varying else []
    return ", ".join([f"{gate.gate.name}: {gate.verdict}", *shown, *focused, *refused, *varying])


def _plain_evidence(
    kind: EvidenceKind, detail: str, attempt: AttemptId | None, shown_at: Commit, at: datetime
) -> Evidence:
    return Evidence(kind=kind, command=None, exit_code=None, commit=shown_at, at=at, detail=detail, attempt_id=attempt)


def _check_evidence(result: CheckResult, attempt: AttemptId | None, shown_at: Commit, at: datetime) -> Evidence:
    if result.name == REVIEW:
        return _plain_evidence("review", review_text(review_in(result)), attempt, shown_at, at)
    if result.name == AUDIT:
        return _plain_evidence("audit", audit_text(audit_of(result)), attempt, shown_at, at)
    if result.name == STEP_CHECK:
        return _plain_evidence("step", result.detail, attempt, shown_at, at)
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
