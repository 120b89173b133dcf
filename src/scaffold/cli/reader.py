"""What a command that only reads needs: the store and the time. Opened without git, models and an event loop."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from scaffold.cli.place import place_if_any
from scaffold.cli.whereabouts import common_dir_around
from scaffold.core.errors import StoreEmpty, UsageProblem
from scaffold.core.model import Run
from scaffold.core.states import INTERRUPTED, Active, Planning, status_of
from scaffold.host.identity import alive
from scaffold.host.wall import WallClock
from scaffold.store.columns import Calendar
from scaffold.store.database import Store


class Readable(Protocol):
    """A place with a store, a `worker.site.Site` or a Reader."""

    @property
    def store(self) -> Store:
        """What is true of the repository's runs."""
        ...

    @property
    def clock(self) -> Calendar:
        """The time of day."""
        ...


class Reader(Struct, frozen=True):
    """A store to read, and the time."""

    store: Store
    clock: Calendar


@contextmanager
def reader_if_any(cwd: Path, environ: Mapping[str, str]) -> Iterator[Reader | None]:
    """Hold the store of the repository around `cwd` open; None where nothing was ever run, and nothing is created."""
    place = place_if_any(common_dir_around(cwd), environ)
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
        yield Reader(store, clock)


def find_run(reader: Readable, name: str | None) -> Run:
    """Return the run whose id starts with `name`, or the latest; UsageProblem if there is none or several."""
    if name is None:
        latest = reader.store.runs.latest()
        if latest is None:
            raise no_run_yet()
        return latest
    start = name.removeprefix("session-")
    if not start:
        raise UsageProblem("the name of a run is empty", "Was a variable not set? `scaffold status` shows the latest.")
    found = reader.store.runs.by_prefix(start)
    if len(found) == 1:
        return found[0]
    known = ", ".join(run.id for run in (found or reader.store.runs.all())[:5]) or "none"
    problem = "is not a run of this repository" if not found else "fits several runs"
    raise UsageProblem(f"`{name}` {problem}", f"Known runs: {known}.")


def interrupted_runs(reader: Readable) -> tuple[Run, ...]:
    """Return the runs whose owner died over them, the latest first."""
    return tuple(run for run in reader.store.runs.all() if shown_status(run) == INTERRUPTED)


def no_run_yet() -> UsageProblem:
    """Return the error of a command that needs a run where there is none."""
    return UsageProblem("there is no run in this repository yet", "Start one with `scaffold run`.")


def shown_status(run: Run) -> str:
    """Return a run's status as people see it: active without a living owner is `interrupted`."""
    if isinstance(run.state, Planning | Active) and (run.owner is None or not alive(run.owner)):
        return INTERRUPTED
    return status_of(run.state)
