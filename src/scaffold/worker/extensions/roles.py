"""The role of a worker, if the user has written one of that name."""

from scaffold.core.extension_set import Role
from scaffold.worker.attempt_context import AttemptContext


def worker_role(context: AttemptContext) -> Role | None:
    """Return the role of the run that has the name of the action's; None if there is none."""
    name = context.task.action.role
    return next((role for role in context.task.run.settings.extensions.roles if role.name == name), None)
