"""What speaks for an action's effects: results, gates and decisions as evidence, never anybody's word."""

from collections.abc import Iterable, Iterator
from datetime import datetime

from scaffold.core.contract import CheckResult, Verification
from scaffold.core.gates import GateResult
from scaffold.core.ids import AttemptId, Commit
from scaffold.core.model import Attempt, Evidence, InboxItem
from scaffold.verify.review import REVIEW, review_in, told

CHANGE = "change"
"""The name of the result of work that nothing else was asked of than a change."""


def evidence_of(
    verification: Verification,
    attempt: AttemptId | None,
    shown_at: Commit,
    at: datetime,
    approved: Iterable[InboxItem] = (),
) -> tuple[Evidence, ...]:
    """Return every check that passed, every gate that let the change through, and every human who agreed to it."""
    passed = [result for result in verification.results if result.verdict == "pass"]
    applied = [gate for gate in verification.gates if gate.verdict != "not_applicable" and not gate.blocks]
    return (
        *(_of_result(result, attempt, shown_at, at) for result in passed),
        *(_of_gate(gate, attempt, shown_at, at) for gate in applied),
        *(_of_human(item, attempt, shown_at) for item in approved),
    )


def agreed_to(attempt: Attempt, approved: Iterable[InboxItem]) -> Iterator[InboxItem]:
    """Yield the approvals that the work of an attempt rests on: of changes to what is protected, on the same base."""
    for item in approved:
        if item.detail.get("protected") and item.detail.get("base") == attempt.base_sha:
            yield item


def gate_in_words(gate: GateResult) -> str:
    """Return how a gate did, in a line: `test: pass, 1 removed, 12 pass, 1 pre_existing, focused`."""
    removed = sum(why == "removed" for why in gate.withdrawn.values())
    counts = (("removed", removed), *gate.counts.items())
    told = [f"{count} {verdict}" for verdict, count in counts if count]
    return ", ".join([f"{gate.gate.name}: {gate.verdict}", *told, *(["focused"] if gate.focused else [])])


def _of_result(result: CheckResult, attempt: AttemptId | None, shown_at: Commit, at: datetime) -> Evidence:
    if result.name == REVIEW:
        opinion = told(review_in(result))
        return Evidence(
            kind="review", command=None, exit_code=None, commit=shown_at, at=at, detail=opinion, attempt_id=attempt
        )
    return Evidence(
        kind="change" if result.name == CHANGE else "contract",
        command=result.name,
        exit_code=result.exit_code,
        commit=shown_at,
        at=at,
        detail=result.detail,
        output_hash=result.output_hash,
        attempt_id=attempt,
    )


def _of_gate(gate: GateResult, attempt: AttemptId | None, shown_at: Commit, at: datetime) -> Evidence:
    return Evidence(
        kind="gate",
        command=gate.gate.command,
        exit_code=gate.exit_code,
        commit=shown_at,
        at=at,
        detail=gate_in_words(gate),
        output_hash=gate.output_hash,
        attempt_id=attempt,
    )


def _of_human(item: InboxItem, attempt: AttemptId | None, shown_at: Commit) -> Evidence:
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
