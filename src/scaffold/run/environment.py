"""The environment of the commands that run in a worktree of a run."""

from collections.abc import Mapping
from pathlib import Path

from scaffold.core.model import Run
from scaffold.policy.secret.environment import command_environment, relocated
from scaffold.run.context import RunContext

FIXED = ("PATH", "HOME")
"""Variables whose paths stay those of the user's checkout: its programs are used in place."""


def worktree_environment(context: RunContext, run: Run, worktree: Path, *, marks: Mapping[str, str]) -> dict[str, str]:
    """Return the user's environment without secrets, with paths in the checkout replaced by those in `worktree`.

    `marks` are further variables.
    """
    own = command_environment(context.environ, names=run.settings.environment.variables)
    return relocated(own, context.repository.root, worktree, fixed=FIXED) | dict(marks)
