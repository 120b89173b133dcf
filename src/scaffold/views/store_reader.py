"""The store and the time, for commands that only read; opened without git, models and an event loop."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from msgspec import Struct

from scaffold.core.errors import StoreEmpty, UsageError
from scaffold.core.ids import ActionKey, RunId
from scaffold.core.model import ProcessIdentity, Run
from scaffold.core.states import INTERRUPTED, Active, Cancelled, Paused, Planning, Saved, status_of
from scaffold.git.common_dir import find_checkout
from scaffold.host.process_identity import is_alive
from scaffold.host.wall_clock import WallClock
from scaffold.run.projections import projection_places, report_name
from scaffold.store.database import Store
from scaffold.store.driver.columns import TimeSource
from scaffold.store.driver.location import existing_state_location


class StoreAccess(Protocol):
    """An open store: a `StoreReader`, or a run's `RunContext`."""

    @property
    def store(self) -> Store:
        """The state of the repository's runs."""
        ...

    @property
    def clock(self) -> TimeSource:
        """The time of day."""
        ...

    @property
    def root(self) -> Path:
        """The top folder of the checkout."""
        ...


class StoreReader(Struct, frozen=True):
    """A store to read, and the time."""

    store: Store
    clock: TimeSource
    root: Path
    show: Callable[[str], object] | None = None
    """Receives notes for the user; None for programs."""


class RunRule(NamedTuple):
    """Which runs have something to show for a command, and what is said of one that has not."""

    fits: Callable[[Store, Run], bool]
    lacks: str


Wanted = Literal["any", "started", "worked", "landed", "audited"]


@contextmanager
def store_reader_if_any(
    cwd: Path, environ: Mapping[str, str], *, show: Callable[[str], object] | None = None
) -> Iterator[StoreReader | None]:
    """Open the store of the repository around `cwd`; yield None if it has none, and create nothing.

    `show` receives a line about a state that someone else made, which can only be read; without it, ForeignState.
    """
    root, common_dir = find_checkout(cwd)
    place = existing_state_location(common_dir, environ)
    if place is None:
        yield None
        return
    clock = WallClock()
    try:
        store = Store.open(place, clock=clock, create=False, foreign="show" if show else "refuse")
    except StoreEmpty:
        yield None
        return
    with closing(store):
        if show and store.foreign:
            show(store.foreign)
        yield StoreReader(store, clock, root, show)


def find_run(
    reader: StoreAccess,
    name: str | None,
    wanted: Wanted = "started",
    *,
    part: str | None = None,
    tell: Callable[[str], object] | None = None,
) -> Run:
    """Return the run whose id starts with `name`, else as `latest_run`; raise UsageError if none fits, or several.

    `tell` receives a note that names a newer run which has nothing to show.
    """
    if name is None:
        newest = newest_run(reader.store)
        latest = latest_run(reader.store, wanted, part=part, newest=newest)
        if latest is None:
            raise no_run_error()
        is_meant = part is None or _contains(reader.store, latest, part)
        if tell and is_meant and newest and newest.id != latest.id:
            decided = (
                rule.lacks
                for rule in (RULES[wanted], RULES["started"])
                if rule.fits(reader.store, latest) and not rule.fits(reader.store, newest)
            )
            lacks = next(decided, f"has no `{part}`")
            tell(f"run {newest.id} is newer; it {lacks} ({display_status(newest)}): this is about run {latest.id}")
        return latest
    # Users copy names of session branches, too.
    start = name.removeprefix("session-")
    if not start:
        raise UsageError("the name of a run is empty", "Is a shell variable unset? `scaffold status` shows the latest.")
    found = reader.store.runs.by_prefix(start)
    if len(found) == 1:
        return found[0]
    known = ", ".join(run.id for run in (found or reader.store.runs.all())[:5]) or "none"
    problem = "is not a run of this repository" if not found else "matches several runs"
    raise UsageError(f"`{name}` {problem}", f"Known runs: {known}.")


def newest_run(store: Store) -> Run | None:
    """Return a run that is executed, else the one touched last; None without runs."""
    return next(filter(is_executed, store.runs.underway()), None) or store.runs.latest()


def latest_run(
    store: Store, wanted: Wanted = "started", *, part: str | None = None, newest: Run | None = None
) -> Run | None:
    """Return the run that a command without a name is about; None without runs.

    A running one comes first, then the one touched last: the first that has what is `wanted`, else that has started.
    With `part`, runs that have an action or a goal of that name are preferred. `newest` is `newest_run` if it is known.
    """
    newest = newest or newest_run(store)
    if newest is None:
        return None
    # The other runs are read only if they have to be.
    ordered = (run for read in (lambda: (newest,), store.runs.all) for run in read())
    fitting = (run for run in ordered if RULES[wanted].fits(store, run))
    first = next(fitting, None)
    if first is None:
        return newest if wanted == "started" else latest_run(store, part=part, newest=newest)
    if part is None or _contains(store, first, part):
        return first
    return next((run for run in fitting if _contains(store, run, part)), first)


def _contains(store: Store, run: Run, part: str) -> bool:
    by_key = store.actions.by_key(run.id, ActionKey(part))
    return by_key is not None or store.goals.by_name(run.id, part) is not None


def _has_started(store: Store, run: Run) -> bool:
    # Nobody agreed to a run that was only saved, or cancelled before its first attempt.
    return not isinstance(run.state, Saved | Cancelled) or bool(store.attempts.for_run(run.id))


RULES: Mapping[Wanted, RunRule] = {
    "any": RunRule(lambda _store, _run: True, ""),
    "started": RunRule(_has_started, "has no work"),
    "worked": RunRule(
        lambda store, run: (
            _has_started(store, run) and bool(store.attempts.for_run(run.id) or store.turns.for_run(run.id))
        ),
        "asked no agent",
    ),
    "landed": RunRule(lambda store, run: store.intents.last_done(run.id) is not None, "has landed nothing"),
    "audited": RunRule(lambda _store, run: run.settings.planning.until_complied, "is not audited"),
}
"""By what a command shows. One that ends a run for good takes any: repeated, it must not go on to an older run."""


def find_run_if_any(reader: StoreReader | None, name: str | None, wanted: Wanted = "started") -> Run | None:
    """Return the run as `find_run` does, but None if no name is given and there is no run yet."""
    if reader is None:
        if name is not None:
            raise no_run_error()
        return None
    if name is None and reader.store.runs.latest() is None:
        return None
    return find_run(reader, name, wanted, tell=reader.show)


def interrupted_runs(reader: StoreAccess) -> tuple[Run, ...]:
    """Return the runs whose owner died, the one touched last first."""
    return tuple(filter(is_interrupted, reader.store.runs.underway()))


def no_run_error() -> UsageError:
    """Return the error of a command that needs a run in a repository without runs."""
    return UsageError("there is no run in this repository yet", "Start one with `scaffold run`.")


def display_status(run: Run) -> str:
    """Return a run's status for people: `interrupted` if only the death of its process keeps it from going on."""
    return INTERRUPTED if is_interrupted(run) else status_of(run.state)


def is_interrupted(run: Run) -> bool:
    """Return whether no process executes a run that would go on if its owner had not died."""
    return is_underway(run) and not is_executed(run)


def is_underway(run: Run) -> bool:
    """Return whether the run is in progress, or paused only as long as its model is away."""
    return isinstance(run.state, Planning | Active) or (isinstance(run.state, Paused) and bool(run.waits_for))


def is_executed(run: Run) -> bool:
    """Return whether a living process executes the run, holds it while its model is away, or restarts its owner."""
    return is_underway(run) and executing_process(run) is not None


def executing_process(run: Run) -> ProcessIdentity | None:
    """Return the live process that owns the run, or else the one that starts the next owner; None if there is none."""
    return next((each for each in (run.owner, run.restarter) if each is not None and is_alive(each)), None)


def find_report(cwd: Path, run_id: RunId) -> Path | None:
    """Return the latest report of a run in the repository around `cwd`; None if there is none."""
    places = [top / report_name(run_id) for top in projection_places(*find_checkout(cwd))]
    found = [(status.st_mtime, place.path) for place in places if place.is_file() and (status := place.status())]
    return max(found)[1] if found else None
