"""Tests that a change makes fail and leaves no version of: it lands only if a reviewer or a human agrees to that."""

from scaffold.core.model import InboxItem
from scaffold.core.printable_text import count_of, join_limited, utf8_safe
from scaffold.core.proof.contract import Verification
from scaffold.core.proof.gates import GateResult
from scaffold.worker.attempt_records import AttemptRecords
from scaffold.worker.human.inbox_approval import InboxApprover
from scaffold.worker.human.protected_review import change_hash
from scaffold.worker.workspace.attempt_worktree import AttemptWorkspace

MAX_NAMED = 5


def blocking_losses(verification: Verification) -> tuple[str, ...]:
    """Return the lost tests if nothing else blocks the work; empty otherwise."""
    if verification.failures or not verification.broken_gates:
        return ()
    lost = [_lost_in(gate) for gate in verification.broken_gates]
    return tuple(sorted(name for names in lost for name in names)) if all(lost) else ()


def _lost_in(gate: GateResult) -> tuple[str, ...]:
    """Return the tests that make a gate block if all of them are lost; empty if something else blocks, too."""
    new = tuple(name for name, verdict in gate.tests.items() if verdict == "new_failure")
    # Only some hundred tests have their names here; what is not named cannot be agreed to.
    named = len(new) == gate.counts.get("new_failure", 0)
    only_lost = all(gate.base_tests.get(name) == "lost" for name in new)
    return new if gate.verdict == "new_failure" and named and only_lost else ()


async def human_decision(
    workspace: AttemptWorkspace,
    human: InboxApprover,
    records: AttemptRecords,
    found: Verification,
    lost: tuple[str, ...],
) -> InboxItem:
    """Return the item by which a human approved or rejected the loss of these tests by exactly this change.

    HumanDecisionRequired if no decision comes in time.
    """
    key = records.task.action.key
    # Without what differs from run to run: an answer holds for exactly this text.
    others = sorted({doubt.code for doubt in found.doubts} - {"tests_lost"})
    more = f" `scaffold contract {key}` has other doubts, too: {', '.join(others)}." if others else ""
    text = f"{key} loses {count_of(len(lost), 'test')} that would fail now: {named(lost)}.{more}"
    detail = {
        "action": key,
        "lost": [utf8_safe(name) for name in lost],
        "base": workspace.base,
        "change": await change_hash(workspace, found.commit),
    }
    return await human.request_approval(text, detail)


def named(lost: tuple[str, ...]) -> str:
    """Return the names of lost tests for a sentence; of many, the first ones."""
    return utf8_safe(join_limited(lost, MAX_NAMED))
