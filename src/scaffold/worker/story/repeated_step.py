"""Whether a story's last step is to be executed again because its agent added steps before it."""

from scaffold.views.story_edits import judge_edits
from scaffold.worker.attempt_context import AttemptContext


def repeats_step(context: AttemptContext, edits: str) -> bool:
    """Return whether the edits that the agent asks for let its own step be executed again."""
    task, now = context.task, context.run_context.clock.now()
    if task.parent is None:
        return False
    return judge_edits(context.run_context.store, task.parent, task.action, task.attempt, edits, now).repeats_step
