"""The only place where parts are put together."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from scaffold.cli.place import place_for, place_if_any
from scaffold.cli.reader import no_run_yet
from scaffold.core.errors import StoreEmpty
from scaffold.core.model import Run
from scaffold.git.repository import Repository, open_repository
from scaffold.host.clock import SystemClock
from scaffold.host.dirs import Dirs, user_dirs
from scaffold.host.loop import run_async
from scaffold.host.zygote import usable
from scaffold.llm.naming import needs_line
from scaffold.orchestrator.processes import FreshProcesses, Part, ProcessMain, WarmProcesses
from scaffold.store.database import Store
from scaffold.store.place import Place
from scaffold.worker.site import Site

PROGRAM = (sys.executable, "-P", "-m", "scaffold")
"""-P: what lies in the repository is not to be taken for a module of ours."""


def dirs() -> Dirs:
    """Return the user's directories."""
    return user_dirs(os.environ)


def repository_here() -> Repository:
    """Open the repository that this process was started in; not to be called where anything asynchronous runs."""
    return run_async(open_repository(Path.cwd(), environ=os.environ))


async def open_site(cwd: Path | None = None, *, create: bool = False) -> Site:
    """Open the repository around `cwd` and its store; without `create` UsageProblem where nothing was ever run."""
    return open_store(await open_repository(cwd or Path.cwd(), environ=os.environ), create=create)


def open_store(repository: Repository, *, create: bool = False) -> Site:
    """Open the store of a repository; without `create` UsageProblem where nothing was ever run."""
    find = place_for if create else place_if_any
    place = find(repository.common_dir, os.environ)
    if place is None:
        raise no_run_yet()
    try:
        return site_of(repository, place, create=create)
    except StoreEmpty as empty:
        raise no_run_yet() from empty


def site_of(repository: Repository, place: Place, *, create: bool = False) -> Site:
    """Open the store at `place` for the repository; without `create` StoreEmpty if nothing is in it."""
    clock = SystemClock()
    store = Store.open(place, clock=clock, create=create)
    return Site(repository=repository, store=store, clock=clock, cache=dirs().cache, environ=os.environ)


def processes_of(site: Site, run: Run) -> WarmProcesses | FreshProcesses:
    """Return what starts workers and supervisors of a run: this program again, forked where that is safe."""

    def argv(part: Part, name: str) -> Sequence[str]:
        return [*PROGRAM, part, name]

    def zygote(line: int) -> Sequence[str]:
        return [*PROGRAM, "zygote", str(line), *(["--live"] if needs_line(run.settings.model) else [])]

    def log(_part: Part, name: str) -> Path:
        return site.process_log(run.id, name)

    main = ProcessMain(argv=argv, environ=dict(os.environ), cwd=site.repository.root, log=log)
    return WarmProcesses(main, zygote=zygote, log=site.zygote_log(run.id)) if usable() else FreshProcesses(main)
