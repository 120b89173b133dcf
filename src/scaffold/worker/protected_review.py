"""Changes of protected paths: they land only after a human approved exactly this change."""

import hashlib

from scaffold.core.ids import Commit
from scaffold.core.printable_text import join_limited, utf8_safe
from scaffold.git import commits
from scaffold.policy.path.protected_areas import ProtectedAreas
from scaffold.run.attempt_end import AttemptEnd
from scaffold.verify.guard import declared_protected_paths
from scaffold.worker.attempt_context import AttemptContext

MAX_PATHS_SHOWN = 5


async def approve_protected_change(context: AttemptContext, head: Commit) -> AttemptEnd | None:
    """Return None if the work may be handed in, the attempt's ending if a human rejects it.

    No approval is needed with `--yolo`, nor for a file named in the user's own plan. The decision holds for the same
    change of the same base. HumanDecisionRequired if none comes in time.
    """
    git, base = context.workspace.git, context.workspace.base
    if not context.task.action.files:  # verification has already refused undeclared changes of protected paths
        return None
    touched = _paths_to_approve(context, await commits.changed_paths(git, base, head))
    if not touched:
        return None
    key = context.task.action.key
    detail = {
        "action": key,
        "protected": [utf8_safe(path) for path in touched],
        "base": base,
        "change": hashlib.sha256(await commits.patch_fingerprint(git, base, head)).hexdigest(),
    }
    decided = await context.human.request_approval(f"{key} changes protected paths: {_named(touched)}", detail)
    if decided.state == "approved":
        return None
    why = f": {decided.answer}" if decided.answer else ""
    return AttemptEnd("gate_failed", f"a human rejected the change to {_named(touched)}{why}", for_good=True)


def _paths_to_approve(context: AttemptContext, changed: tuple[str, ...]) -> tuple[str, ...]:
    settings, files = context.task.run.settings, context.task.action.files
    permissions = settings.permissions
    if permissions.yolo:
        return ()
    touched = declared_protected_paths(changed, files, ProtectedAreas.with_added(permissions.areas))
    return touched if settings.planning.planner else tuple(path for path in touched if path not in files)


def _named(paths: tuple[str, ...]) -> str:
    return utf8_safe(join_limited(paths, MAX_PATHS_SHOWN))
