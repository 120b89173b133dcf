"""Write the patch of work that did not land into the projections, where people look first; the refs are the record."""

import contextlib
from pathlib import Path

from scaffold.core.errors import GitError
from scaffold.core.ids import AttemptId
from scaffold.core.states import Failed
from scaffold.git.commits import DIFF_OPTIONS, WITHOUT_ATTRIBUTES
from scaffold.host.atomic_files import delete_path
from scaffold.host.leftovers import own_mark
from scaffold.run.attempts.assignment import journal_names
from scaffold.run.context import RunContext, safe_file_name

FAILURES, RESTARTS = "failures", "restarts"


async def write_rescue_diff(context: RunContext, attempt_id: AttemptId) -> None:
    """Write the ended attempt's patch against the commit it began at, commits of the agent and new files included.

    `failures/GOAL-ACTION.diff` if the action has failed with it, otherwise `restarts/GOAL-ACTION-ATTEMPT.diff`; of a
    story, `STORY-STEP`. Nothing is written without pinned work, or if the checkout cannot be written; `scaffold
    salvage` has the work nevertheless.
    """
    attempt = context.store.attempts.get(attempt_id)
    action = context.store.actions.get(attempt.action_id) if attempt else None
    goal = context.store.goals.get(action.goal_id) if action else None
    if attempt is None or action is None or goal is None or attempt.head_sha in {None, attempt.start}:
        return
    if not context.projections.is_dir():
        return
    parent = context.store.actions.get(action.parent_id) if action.parent_id else None
    name = safe_file_name("-".join(journal_names(goal, action, parent)))
    failed = isinstance(action.state, Failed)
    relative = Path(FAILURES, f"{name}.diff") if failed else Path(RESTARTS, f"{name}-{attempt.number}.diff")
    target = context.projections / relative
    written = target.with_name(f".{own_mark()}diff")
    with contextlib.suppress(OSError, GitError):
        target.parent.mkdir(mode=0o700, exist_ok=True)
        written.touch(mode=0o600)
        # Not through memory: the work may have large files.
        args = ("diff-tree", "-r", "-p", "--binary", *DIFF_OPTIONS, f"--output={written}")
        await context.git(*args, attempt.start, str(attempt.head_sha), env=WITHOUT_ATTRIBUTES)
        written.replace(target)
    with contextlib.suppress(OSError):
        delete_path(written)
