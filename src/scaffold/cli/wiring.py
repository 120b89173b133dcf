"""Open repositories and stores for commands, and provide the processes of a run."""

import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from scaffold.cli.render.terminal.style import print_note
from scaffold.core.errors import StoreEmpty
from scaffold.core.model import Run
from scaffold.git.repository import Repository, open_repository
from scaffold.host.clock import SystemClock
from scaffold.host.process.async_runner import run_async
from scaffold.host.process.zygote_client import can_fork
from scaffold.host.user_dirs import user_dirs
from scaffold.llm.registry.model_name import is_live
from scaffold.orchestrator.owner.processes.local_engine import (
    FreshProcessStarter,
    ProcessMain,
    ProcessRole,
    ZygoteProcessStarter,
)
from scaffold.run.context import RunContext
from scaffold.store.database import Store
from scaffold.store.driver.location import StoreLocation, existing_state_location, state_location
from scaffold.views.store_reader import Wanted, find_run, no_run_error

PROGRAM = (sys.executable, "-P", "-m", "scaffold")  # -P: a file in the repository must not shadow our modules


def repository_here() -> Repository:
    """Open the repository around the current directory; must not be called inside an event loop."""
    return run_async(open_repository(Path.cwd(), environ=os.environ))


async def open_context(cwd: Path | None = None, *, create: bool = False) -> RunContext:
    """Open the repository around `cwd` and its store; without `create`, raises UsageError if there is no run yet."""
    return repository_context(await open_repository(cwd or Path.cwd(), environ=os.environ), create=create)


def repository_context(repository: Repository, *, create: bool = False, outage_s: float = 0.0) -> RunContext:
    """Open the store of a repository, as `Store.open` does; UsageError without `create` if there is no run yet."""
    find = state_location if create else existing_state_location
    place = find(repository.common_dir, os.environ)
    if place is None:
        raise no_run_error()
    try:
        return context_at(repository, place, create=create, outage_s=outage_s)
    except StoreEmpty as empty:
        raise no_run_error() from empty


def context_at(
    repository: Repository, place: StoreLocation, *, create: bool = False, outage_s: float = 0.0
) -> RunContext:
    """Open the store at `place` for the repository; without `create`, raises StoreEmpty if it is empty."""
    clock = SystemClock()
    store = Store.open(place, clock=clock, create=create, outage_s=outage_s)
    return RunContext(repository=repository, store=store, clock=clock, cache=user_dirs().cache, environ=os.environ)


def processes_of(context: RunContext, run: Run) -> ZygoteProcessStarter | FreshProcessStarter:
    """Return the starter of a run's workers and supervisors: this program, forked from a zygote where that is safe."""

    def argv(part: ProcessRole, name: str) -> Sequence[str]:
        return [*PROGRAM, part, name]

    is_any_live = any(is_live(each.name) for each in run.settings.models)

    def zygote(line: int) -> Sequence[str]:
        return [*PROGRAM, "zygote", str(line), *(["--live"] if is_any_live else [])]

    def log(_part: ProcessRole, name: str) -> Path:
        # A process of supervisors logs under the name of its first goal.
        return context.process_log(run.id, name.partition(",")[0])

    main = ProcessMain(argv=argv, environ=dict(os.environ), cwd=context.repository.root, log=log)
    return (
        ZygoteProcessStarter(main, zygote=zygote, log=context.zygote_log(run.id))
        if can_fork()
        else FreshProcessStarter(main)
    )


@asynccontextmanager
async def context_if_any() -> AsyncIterator[RunContext | None]:
    """Yield the context of the repository; None, and nothing is created, if there is no run yet."""
    repository = await open_repository(Path.cwd(), environ=os.environ)
    place = existing_state_location(repository.common_dir, os.environ)
    if place is None:
        yield None
        return
    try:
        context = context_at(repository, place)
    except StoreEmpty:
        yield None
        return
    try:
        yield context
    finally:
        context.store.close()


@asynccontextmanager
async def context_with_run(
    name: str | None, wanted: Wanted = "started", *, part: str | None = None
) -> AsyncIterator[tuple[RunContext, Run]]:
    """Yield the context and the run as `find_run` chooses it; raises UsageError if there is none."""
    async with context_if_any() as context:
        if context is None:
            raise no_run_error()
        yield context, find_run(context, name, wanted, part=part, tell=print_note)
