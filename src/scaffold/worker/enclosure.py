"""What the commands of a run are held to: those of its agents, and those that check their work."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from scaffold.core.model import Run
from scaffold.host.dirs import user_dirs
from scaffold.host.sandbox.confinement import GIBIBYTE, Enclosure, Limits
from scaffold.policy.sandbox import Grounds, Sandbox, connected, enclosed
from scaffold.policy.zones import secrets_at
from scaffold.worker.site import Site


def sandbox_of(run: Run) -> Sandbox:
    """Return what the run's commands are to be held to."""
    settings = run.settings
    limits = Limits(memory_bytes=int(settings.memory_gb * GIBIBYTE))
    return Sandbox(mode=settings.sandbox, network=settings.network, hosts=settings.hosts, limits=limits)


@asynccontextmanager
async def enclosure(site: Site, run: Run, root: Path, *, name: str) -> AsyncIterator[Enclosure | None]:
    """Yield what holds commands in the worktree `root`; None where nothing does, TrustProblem if it must.

    Their temporary folder is that of `name`: an attempt's, or the merge queue's.
    """
    dirs, state = user_dirs(site.environ), site.repository.common_dir / "scaffold"
    grounds = Grounds(
        root=root,
        home=Path.home(),
        temporary=site.temporary(run.id, name),
        private=(dirs.config, dirs.data, site.cache, state, *secrets_at(site.repository.root)),
        shown=(site.repository.common_dir,),
        tracked=tuple(os.listdir(root)),  # noqa: PTH208 - a worktree holds nothing but what git keeps
        disposable=True,
    )
    found = await enclosed(sandbox_of(run), grounds, site.environ, cache=site.cache / "sandbox.json")
    async with connected(found) as way:
        yield way


def forget_temporary(site: Site, run: Run, *, name: str) -> None:
    """Remove a temporary folder with all that commands left in it; what cannot be removed stays."""
    shutil.rmtree(site.temporary(run.id, name), ignore_errors=True)
