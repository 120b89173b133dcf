"""Write the patch of work that did not land into the projections, where people look first; the refs are the record."""

import contextlib
import tempfile

from scaffold.core.errors import GitError
from scaffold.core.ids import AttemptId
from scaffold.core.model import Run
from scaffold.core.states import Failed
from scaffold.git.commits import DIFF_OPTIONS, WITHOUT_ATTRIBUTES
from scaffold.host.leftovers import own_mark
from scaffold.run.attempts.assignment import journal_names
from scaffold.run.context import RunContext, safe_file_name

FAILURES, RESTARTS = "failures", "restarts"


async def write_rescue_diff(context: RunContext, attempt_id: AttemptId, *, anew: bool = True) -> None:
    """Write the ended attempt's patch against the commit it began at, commits of the agent and new files included.

    `failures/GOAL-ACTION.diff` if the action has failed with it, otherwise `restarts/GOAL-ACTION-ATTEMPT.diff`; of a
    story, `STORY-STEP`. Empty ones are written of a failure and a restart alone, and none if the checkout cannot be
    written; `scaffold salvage` has the work nevertheless. A file of this attempt is replaced only if written `anew`.
    """
    attempt = context.store.attempts.get(attempt_id)
    action = context.store.actions.get(attempt.action_id) if attempt else None
    goal = context.store.goals.get(action.goal_id) if action else None
    if attempt is None or action is None or goal is None:
        return
    failed, head = isinstance(action.state, Failed), attempt.head_sha or attempt.start
    if head == attempt.start and not failed and attempt.outcome != "restarted":
        return
    if context.projections.status() is None:
        return
    parent = context.store.actions.get(action.parent_id) if action.parent_id else None
    at_failure, otherwise = diff_names(journal_names(goal, action, parent), attempt.number)
    target = context.projections / (at_failure if failed else otherwise)
    kept = None if anew else target.status()
    # An older file is the patch of an earlier failure, before the action was retried.
    if kept and attempt.started_at and kept.st_mtime >= attempt.started_at.timestamp():
        return
    with (
        contextlib.suppress(OSError, GitError),
        # Git follows links, so it does not write there itself; not through memory: the work may have large files.
        tempfile.NamedTemporaryFile(dir=context.cache, prefix=own_mark()) as written,
    ):
        args = ("diff-tree", "-r", "-p", "--binary", *DIFF_OPTIONS, f"--output={written.name}")
        await context.git(*args, attempt.start, head, env=WITHOUT_ATTRIBUTES)
        target.write(written, folder_mode=0o700)


async def write_failure_diffs(context: RunContext, run: Run) -> None:
    """Write the patch of each action of the run that has failed, also where the process that ended it was killed."""
    for action in context.store.actions.for_run(run.id):
        attempts = context.store.attempts.for_action(action.id) if isinstance(action.state, Failed) else ()
        if attempts:
            await write_rescue_diff(context, attempts[-1].id, anew=False)


def diff_names(journal: tuple[str, str], attempt: int) -> tuple[str, str]:
    """Return the names of an attempt's patch in the projections: if its action has failed with it, and otherwise."""
    name = safe_file_name("-".join(journal))
    return f"{FAILURES}/{name}.diff", f"{RESTARTS}/{name}-{attempt}.diff"
