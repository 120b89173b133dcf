"""The sandbox of a run's commands: its agents' and its checks'."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from scaffold.core.model import Run
from scaffold.host.sandbox.confinement import SandboxSpec
from scaffold.host.user_dirs import user_dirs
from scaffold.policy.sandbox_profiles import SandboxInputs, top_level_secrets
from scaffold.policy.sandbox_setup import build_enclosure, with_egress
from scaffold.run.context import RunContext


@asynccontextmanager
async def open_sandbox(context: RunContext, run: Run, root: Path, *, name: str) -> AsyncIterator[SandboxSpec | None]:
    """Yield the sandbox for commands in the worktree `root`; None if there is none, TrustError if one is required.

    `name` selects the temporary folder: an attempt's id, or the merge queue's name.
    """
    dirs, state = user_dirs(), context.repository.common_dir / "scaffold"
    inputs = SandboxInputs(
        root=root,
        home=Path.home(),
        temporary=context.temporary(run.id, name),
        private=(dirs.config, dirs.data, context.cache, state, *top_level_secrets(context.repository.root)),
        shown=(context.repository.common_dir,),
        tracked=tuple(os.listdir(root)),  # noqa: PTH208 - a new worktree contains only tracked files
        disposable=True,
    )
    enclosure = await build_enclosure(
        run.settings.sandbox, inputs, context.environ, cache=context.cache / "sandbox.json"
    )
    async with with_egress(enclosure) as sandbox:
        yield sandbox


def remove_temporary_folder(context: RunContext, run: Run, *, name: str) -> None:
    """Remove a temporary folder and its content; ignore files that cannot be removed."""
    shutil.rmtree(context.temporary(run.id, name), ignore_errors=True)
