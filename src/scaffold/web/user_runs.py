"""Read the runs of all repositories of the user; each call opens the stores that it needs, and closes them."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from scaffold.core.errors import ScaffoldError
from scaffold.core.ids import RunId
from scaffold.core.model import InboxItem, Run
from scaffold.git.client.command_line import Git
from scaffold.git.common_dir import find_top
from scaffold.host.user_dirs import user_dirs
from scaffold.host.wall_clock import WallClock
from scaffold.policy.secret.redaction import Redactor
from scaffold.policy.secret.sources import redactor_for
from scaffold.verify.environment.included_files import kept_snapshots
from scaffold.views.changes.taken_work import with_taken, without_taken
from scaffold.views.changes.waiting_change import WaitingChange, read_waiting_change
from scaffold.views.run_list import ListedRun, read_runs
from scaffold.views.run_view import RunView, read_run_view
from scaffold.views.store_reader import StoreReader, store_reader_if_any
from scaffold.views.waiting import UnreadRepository, WaitingEntry, item_entry, read_waiting, read_waiting_of_user
from scaffold.views.waiting_of_user import known_repositories
from scaffold.web.page_frame import NotThere


class RepositoryRuns(Struct, frozen=True):
    """The runs of one repository, the one touched last first."""

    root: Path
    runs: tuple[ListedRun, ...]


class AskedEntry(Struct, frozen=True):
    """What waits for the user, without secrets, and the change that it is about, if that was read."""

    entry: WaitingEntry
    change: WaitingChange | None = None


class UserRuns:
    """The repositories in which the user has had a run, and the one in which the server was started."""

    def __init__(self, cwd: Path, environ: Mapping[str, str]) -> None:
        """`environ` says where the stores of the repositories are."""
        self._cwd = cwd
        self.environ = environ
        self._places: dict[str, Path] = {}

    def roots(self) -> tuple[Path, ...]:
        """Return the checkouts: the one in which the server was started, then the others, the one used last first."""
        known = list(known_repositories(WallClock()))
        # First, because a copied repository has runs of the same names.
        with suppress(ScaffoldError):
            known.insert(0, find_top(self._cwd))
        return tuple(dict.fromkeys(known))

    def listed(self) -> tuple[tuple[RepositoryRuns, ...], tuple[UnreadRepository, ...]]:
        """Return the runs of each repository that has any, and the repositories that cannot be read."""
        found, unread = list[RepositoryRuns](), list[UnreadRepository]()
        for root in self.roots():
            try:
                with self._store_reader(root) as reader:
                    runs = read_runs(reader) if reader else ()
            except ScaffoldError as error:
                unread += [UnreadRepository(root, error.what)] if root.is_dir() else []
                continue
            if runs:
                clean = self.redactor(root).clean
                cleaned = [replace(run, request=clean(run.request)) for run in runs]
                found.append(RepositoryRuns(root, tuple(cleaned)))
        return tuple(found), tuple(unread)

    async def waiting(self) -> tuple[tuple[AskedEntry, ...], tuple[UnreadRepository, ...]]:
        """Return what waits for the user in all repositories, oldest first, and those that cannot be read."""
        entries, unread = await asyncio.to_thread(lambda: read_waiting_of_user(self.roots(), self.environ))
        # Not in the thread: before Python 3.12 only the loop of the main thread starts programs, such as git.
        kept = await without_taken(entries)
        return tuple(AskedEntry(self._without_secrets(entry)) for entry in kept), unread

    async def run_view(self, reader: StoreReader, run: Run) -> RunView:
        """Return a run as it is now, with what the user has taken of it."""
        return await with_taken(Git(reader.root, environ=self.environ), reader.store, read_run_view(reader, run))

    def asked_of_run(self, reader: StoreReader, run: Run) -> tuple[AskedEntry, ...]:
        """Return what waits in one run, oldest first, each with its change."""
        return tuple(self._with_change(reader, entry) for entry in read_waiting(reader, run))

    def asked_item(self, item_id: str) -> AskedEntry:
        """Return an item of the inbox in any state, with its change; raises NotThere."""
        with self.with_item(item_id) as (reader, item):
            return self._with_change(reader, item_entry(reader.store, item, reader.root))

    def redactor(self, root: Path) -> Redactor:
        """Return what removes the secrets of this moment from texts about the repository."""
        return redactor_for(self.environ, root, *kept_snapshots(user_dirs().cache))

    def _with_change(self, reader: StoreReader, entry: WaitingEntry) -> AskedEntry:
        is_open = entry.item is not None and entry.item.state == "open"
        change = read_waiting_change(reader.store, entry.item) if entry.item is not None and is_open else None
        return AskedEntry(self._without_secrets(entry), change)

    def _without_secrets(self, entry: WaitingEntry) -> WaitingEntry:
        redactor = self.redactor(entry.repository or self._cwd)
        item = entry.item and replace(entry.item, detail=redactor.clean_all(dict(entry.item.detail)))
        return replace(entry, text=redactor.clean(entry.text), item=item)

    @contextmanager
    def with_run(self, run_id: str) -> Iterator[tuple[StoreReader, Run]]:
        """Yield the store that has the run, and the run; raises NotThere."""
        for root in self._roots_for(run_id):
            with self._opened_store(root) as reader:
                run = reader.store.runs.get(RunId(run_id)) if reader else None
                if reader is not None and run is not None:
                    self._places[run_id] = root
                    yield reader, run
                    return
        raise NotThere(f"there is no run `{run_id}` in your repositories", "The first page lists the runs.")

    @contextmanager
    def with_item(self, item_id: str) -> Iterator[tuple[StoreReader, InboxItem]]:
        """Yield the store that has the inbox item, and the item, in any state; raises NotThere."""
        for root in self._roots_for(item_id):
            with self._opened_store(root) as reader:
                item = reader.store.inbox.get(item_id) if reader else None
                if reader is not None and item is not None:
                    self._places[item_id] = root
                    yield reader, item
                    return
        raise NotThere(f"`{item_id}` is not in the inbox of your repositories", "The inbox lists what waits.")

    def changes(self) -> Sequence[tuple[str, str, int]]:
        """Return the latest event of each repository: another value once anything has happened in any run.

        Costs two statements for each repository.
        """
        found = []
        for root in self.roots():
            with self._opened_store(root) as reader:
                if reader is not None and (run := reader.store.runs.latest()) is not None:
                    found.append((str(root), run.id, reader.store.events.last_seq(run.id)))
        return found

    def _roots_for(self, name: str) -> tuple[Path, ...]:
        # Where it was found before comes first.
        known = self._places.get(name)
        return tuple(sorted(self.roots(), key=lambda root: root != known))

    @contextmanager
    def _opened_store(self, root: Path) -> Iterator[StoreReader | None]:
        with ExitStack() as stack:
            try:
                reader = stack.enter_context(self._store_reader(root))
            except ScaffoldError:
                reader = None  # the page that lists the repositories says why
            yield reader

    def _store_reader(self, root: Path) -> AbstractContextManager[StoreReader | None]:
        # A state that someone else made is shown, and nothing of it is run.
        return store_reader_if_any(root, self.environ, show=lambda _note: None)
