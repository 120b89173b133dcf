"""What a command that only reads needs: the store and the time. Opened without git, models and an event loop."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from scaffold.core.errors import StoreEmpty, UsageError
from scaffold.core.model import Run
from scaffold.core.states import INTERRUPTED, Active, Planning, status_of
from scaffold.git.common_dir import find_common_dir
from scaffold.host.identity import is_alive
from scaffold.host.wall_clock import WallClock
from scaffold.store.database import Store
from scaffold.store.driver.columns import TimeSource
from scaffold.store.state_location import existing_state_location


class StoreAccess(Protocol):
    """A place with a store, a `worker.site.Site` or a Reader."""

    @property
    def store(self) -> Store:
        """What is true of the repository's runs."""
        ...

    @property
    def clock(self) -> TimeSource:
        """The time of day."""
        ...


class StoreReader(Struct, frozen=True):
    """A store to read, and the time."""

    store: Store
    clock: TimeSource


@contextmanager
def store_reader_if_any(cwd: Path, environ: Mapping[str, str]) -> Iterator[StoreReader | None]:
    """Hold the store of the repository around `cwd` open; None where nothing was ever run, and nothing is created."""
    place = existing_state_location(find_common_dir(cwd), environ)
    if place is None:
        yield None
        return
    clock = WallClock()
    try:
        store = Store.open(place, clock=clock, create=False)
    except StoreEmpty:
        yield None
        return
    with closing(store):
        yield StoreReader(store, clock)


def find_run(reader: StoreAccess, name: str | None) -> Run:
    """Return the run whose id starts with `name`, or the latest; UsageProblem if there is none or several."""
    if name is None:
        latest = reader.store.runs.latest()
        if latest is None:
            raise no_run_error()
        return latest
    start = name.removeprefix("session-")
    if not start:
        raise UsageError("the name of a run is empty", "Was a variable not set? `scaffold status` shows the latest.")
    found = reader.store.runs.by_prefix(start)
    if len(found) == 1:
        return found[0]
    known = ", ".join(run.id for run in (found or reader.store.runs.all())[:5]) or "none"
    problem = "is not a run of this repository" if not found else "fits several runs"
    raise UsageError(f"`{name}` {problem}", f"Known runs: {known}.")


def interrupted_runs(reader: StoreAccess) -> tuple[Run, ...]:
    """Return the runs whose owner died over them, the latest first."""
    return tuple(run for run in reader.store.runs.all() if display_status(run) == INTERRUPTED)


def no_run_error() -> UsageError:
    """Return the error of a command that needs a run where there is none."""
    return UsageError("there is no run in this repository yet", "Start one with `scaffold run`.")


def display_status(run: Run) -> str:
    """Return a run's status as people see it: active without a living owner is `interrupted`."""
    if isinstance(run.state, Planning | Active) and (run.owner is None or not is_alive(run.owner)):
        return INTERRUPTED
    return status_of(run.state)
