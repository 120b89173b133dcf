"""The only place where parts are put together."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from random import SystemRandom  # noqa: TID251 - jitter needs no seed

from scaffold.core.errors import UsageProblem
from scaffold.core.model import Attempt, Run
from scaffold.core.ports import Model
from scaffold.core.states import INTERRUPTED, Active, Planning, status_of
from scaffold.git.repository import Repository, open_repository
from scaffold.host.clock import SystemClock
from scaffold.host.dirs import Dirs, user_dirs
from scaffold.host.identity import alive
from scaffold.llm.catalog import cassette_digest, open_model, pinned_model
from scaffold.orchestrator.local import LocalEngine, WorkerMain
from scaffold.store.database import Store
from scaffold.worker.site import Site


def dirs() -> Dirs:
    """Return the user's directories."""
    return user_dirs(os.environ)


def database_path(repository: Repository) -> Path:
    """Return where the repository's state lives: shared by its worktrees, out of reach of `git clean`."""
    return repository.common_dir / "scaffold" / "state.db"


async def open_site(cwd: Path | None = None, *, create: bool = False) -> Site:
    """Open the repository around `cwd` and its store; without `create` a store that is not there is an error."""
    repository = await open_repository(cwd or Path.cwd(), environ=os.environ)
    clock = SystemClock()
    store = Store.open(database_path(repository), clock=clock, create=create)
    return Site(repository=repository, store=store, clock=clock, cache=dirs().cache, environ=os.environ)


def local_engine(site: Site, run: Run) -> LocalEngine:
    """Return an engine whose workers are this program again, as the hidden command `worker`."""

    def argv(attempt: Attempt) -> Sequence[str]:
        return [sys.executable, "-m", "scaffold", "worker", attempt.id]

    return LocalEngine(
        WorkerMain(
            argv=argv,
            environ=dict(os.environ),
            cwd=Path(run.settings.repository),
            log=lambda attempt: site.process_log(run.id, attempt.id),
        )
    )


def model_of(run: Run) -> Model:
    """Return the model that the run was started with."""
    return open_model(run.settings.model, clock=SystemClock(), rng=SystemRandom())


def usable_model(text: str) -> tuple[str, str]:
    """Return a model string that means the same from everywhere, and the digest of its cassette ("" for others).

    What cannot answer is refused here, before work, and not by every worker: UsageProblem, ModelTrouble.
    """
    pinned = pinned_model(text)
    open_model(pinned, clock=SystemClock(), rng=SystemRandom())
    return pinned, cassette_digest(pinned)


def find_run(site: Site, name: str | None) -> Run:
    """Return the run whose id starts with `name`, or the latest; UsageProblem if there is none or several."""
    if name is None:
        latest = site.store.runs.latest()
        if latest is None:
            raise UsageProblem("there is no run in this repository yet", "Start one with `scaffold run --plan FILE`.")
        return latest
    found = site.store.runs.by_prefix(name.removeprefix("session-"))
    if len(found) == 1:
        return found[0]
    known = ", ".join(run.id for run in (found or site.store.runs.all())[:5]) or "none"
    problem = "is not a run of this repository" if not found else "fits several runs"
    raise UsageProblem(f"`{name}` {problem}", f"Known runs: {known}.")


def shown_status(run: Run) -> str:
    """Return a run's status as people see it: active without a living owner is `interrupted`."""
    if isinstance(run.state, Planning | Active) and (run.owner is None or not alive(run.owner)):
        return INTERRUPTED
    return status_of(run.state)
