"""The skills of a worker."""

from scaffold.agent.skills import SkillPlace
from scaffold.worker.attempt_context import AttemptContext


def worker_skills(context: AttemptContext) -> SkillPlace:
    """Return the skills of the run; files beside the project's are those of the worktree."""
    return SkillPlace(context.task.run.settings.extensions, context.workspace.path)
