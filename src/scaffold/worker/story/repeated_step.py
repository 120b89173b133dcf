"""Whether a story's last step is to be executed again because its agent added steps before it."""

from scaffold.views.story_edits import judge_edits
from scaffold.worker.attempt_records import AttemptRecords


def repeats_step(records: AttemptRecords, edits: str) -> bool:
    """Return whether the edits that the agent asks for let its own step be executed again."""
    task, now = records.task, records.run_context.clock.now()
    if task.parent is None:
        return False
    return judge_edits(records.store, task.parent, task.action, task.attempt, edits, now).repeats_step
