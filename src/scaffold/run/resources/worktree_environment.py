"""The environment of the commands that run in a worktree of a run."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from scaffold.core.model import Run
from scaffold.core.proof.gates import CheckEnvironment
from scaffold.policy.secret.command_environment import command_environment, relocated
from scaffold.run.context import RunContext
from scaffold.verify.contract.check_runs import HookPlace
from scaffold.verify.environment.provisioning import provision_checkout

FIXED = ("PATH", "HOME")
"""Variables whose paths stay those of the user's checkout: its programs are used in place."""


def worktree_environment(context: RunContext, run: Run, worktree: Path, *, marks: Mapping[str, str]) -> dict[str, str]:
    """Return the user's environment without secrets, with paths in the checkout replaced by those in `worktree`.

    `marks` are further variables.
    """
    own = command_environment(context.environ, names=run.settings.environment.variables)
    return relocated(own, context.repository.root, worktree, fixed=FIXED) | dict(marks)


def hook_place(context: RunContext, run: Run, environment: CheckEnvironment | None) -> HookPlace | None:
    """Return where the repository's commit hooks run; None if they may not, as the folder is not trusted."""
    if not run.settings.environment.trusted:
        return None
    return HookPlace(
        common_dir=context.repository.common_dir,
        prepare=partial(provision_checkout, environment),
        trusted=run.settings.environment.hooks,
    )
