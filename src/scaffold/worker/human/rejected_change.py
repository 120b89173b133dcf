"""A change that a human rejected before it landed: later attempts begin with it, and with their words."""

from scaffold.core.ids import TreeId
from scaffold.core.model import Attempt
from scaffold.git import refs
from scaffold.worker.attempt_records import AttemptRecords
from scaffold.worker.human.continued_turn import Impossible, work_on_base
from scaffold.worker.workspace.workplace import Workplace

REWORK = """\
# Rework the change that was rejected
A human read the change of an earlier attempt before it landed, and rejected it; what they said is above. Your files
already have that change: rework it as they ask, and leave the rest as it is. They are asked again about the result."""


async def restore_rejected_change(place: Workplace, records: AttemptRecords) -> TreeId | None:
    """Restore the files of the change that a human rejected last, and return their tree; None if there is none.

    Attempts that failed, were killed or stopped since then have not reworked it, but one that is to take another
    approach starts over. On a base that has moved, the files are merged with it; if that is not possible, the attempt
    starts over. HEAD does not move.
    """
    git, before = place.workspace.git, _rejected_attempt(records)
    if before is None or before.head_sha is None or records.task.attempt.alternative:
        return None
    if await refs.resolve(place.run_context.git, before.head_sha) is None:
        return None
    tree = await work_on_base(place, before, before.head_sha)
    if isinstance(tree, Impossible):
        text = f"{records.task.action.key} starts over after attempt {before.number} was rejected: {tree.why}."
        records.inform(text)
        return None
    await git("read-tree", "-u", "--reset", tree)
    return TreeId((await git("write-tree")).line)


def _rejected_attempt(records: AttemptRecords) -> Attempt | None:
    """Return the last attempt that a human rejected, unless its action has landed since."""
    attempt = records.task.attempt
    earlier = records.store.attempts.of_action(attempt.action_id)
    for each in reversed(earlier):
        if each.number < attempt.number and each.outcome in {"rejected", "landed", "recorded"}:
            return each if each.outcome == "rejected" else None
    return None
