"""Changes of protected files and areas: they land only after a human approved exactly this change."""

import hashlib

from scaffold.core.ids import Commit
from scaffold.core.model import InboxItem
from scaffold.core.printable_text import count_of, join_limited, utf8_safe
from scaffold.core.proof.contract import ChangeReview, Verification
from scaffold.core.proof.gates import GateResult
from scaffold.git import commits
from scaffold.policy.path.protected_areas import ProtectedAreas
from scaffold.policy.path.protected_files import protected_entry
from scaffold.run.failures.attempt_end import AttemptEnd
from scaffold.verify.guard import declared_protected_paths
from scaffold.worker.attempt_records import AttemptRecords
from scaffold.worker.human.inbox_approval import InboxApprover
from scaffold.worker.workspace.attempt_worktree import AttemptWorkspace

MAX_NAMED = 5
MAX_PATHS_SHOWN = 5


async def approve_protected_change(
    workspace: AttemptWorkspace,
    human: InboxApprover,
    records: AttemptRecords,
    head: Commit,
    review: ChangeReview | None = None,
) -> AttemptEnd | None:
    """Return None if the work may be handed in, the attempt's ending if a human rejects it.

    In protected areas, no approval is needed with `--yolo`, nor for a file named in the user's own plan, nor if the
    second reviewer approved the change in a tier that lets it. The decision holds for the same change of the same base.
    HumanDecisionRequired if none comes in time. Not asked where a human reviews every change.
    """
    git, base = workspace.git, workspace.base
    # The merge queue asks a human about the whole change.
    if records.task.run.settings.human_reviews:
        return None
    if not records.declaration.files:  # verification has already refused undeclared changes of protected paths
        return None
    inner = [change.path for change in await commits.submodule_changes(git, base, head)]
    files = tuple(path for path in inner if protected_entry(path))
    touched = _paths_to_approve(records, (*await commits.changed_paths(git, base, head), *files))
    change = await change_hash(workspace, head)
    verdict = review.review if review is not None and review.holds_for(base, change, ()) else None
    if verdict is not None and review is not None and review.approves:
        left_to_reviewer = paths_for_reviewer(records, touched)
        touched = tuple(path for path in touched if path not in left_to_reviewer)
    if not touched:
        return None
    key = records.task.action.key
    detail = {"action": key, "protected": [utf8_safe(path) for path in touched], "base": base, "change": change}
    objection = (
        f". The second reviewer rejects it: {verdict.summary}" if verdict and verdict.verdict == "reject" else ""
    )
    text = f"{key} changes protected paths: {_path_names(touched)}{objection}"
    decided = await human.request_approval(text, detail)
    if decided.state == "approved":
        return None
    why = f": {decided.answer}" if decided.answer else ""
    return AttemptEnd("gate_failed", f"a human rejected the change to {_path_names(touched)}{why}", permanent=True)


async def change_hash(workspace: AttemptWorkspace, head: Commit) -> str:
    """Return the hash of the attempt's change: the same for the same paths, modes and blobs before and after."""
    fingerprint = await commits.patch_fingerprint(workspace.git, workspace.base, head)
    return hashlib.sha256(fingerprint).hexdigest()


def paths_for_reviewer(records: AttemptRecords, changed: tuple[str, ...]) -> tuple[str, ...]:
    """Return the changed paths that need approval and that the second reviewer may approve: protected areas only.

    Protected files, such as hooks of git, and everything in some tiers, are left to a human.
    """
    settings = records.task.run.settings
    if settings.planning.reviewer is None or settings.human_reviews:
        return ()
    return tuple(path for path in _paths_to_approve(records, changed) if not protected_entry(path))


def _paths_to_approve(records: AttemptRecords, changed: tuple[str, ...]) -> tuple[str, ...]:
    settings, planned = records.task.run.settings, records.task.action.files
    permissions = settings.permissions
    touched = declared_protected_paths(changed, records.declaration.files, ProtectedAreas.with_added(permissions.areas))
    if permissions.yolo:
        return tuple(path for path in touched if protected_entry(path))
    if settings.planning.planner:
        return touched
    # A user's own plan is the user's consent; a planner's is a model's wish.
    return tuple(path for path in touched if path not in planned or protected_entry(path))


def _path_names(paths: tuple[str, ...]) -> str:
    return utf8_safe(join_limited(paths, MAX_PATHS_SHOWN))


def blocking_losses(verification: Verification) -> tuple[str, ...]:
    """Return the lost tests if nothing else blocks the work; empty otherwise."""
    if verification.failures or not verification.broken_gates:
        return ()
    lost = [_lost_in(gate) for gate in verification.broken_gates]
    return tuple(sorted(name for names in lost for name in names)) if all(lost) else ()


def _lost_in(gate: GateResult) -> tuple[str, ...]:
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
