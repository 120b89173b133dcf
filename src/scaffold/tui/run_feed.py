"""What the screen shows of a run, read from the store: at once when something happened, and for little of a core."""

import time
from collections import deque
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from scaffold.core.errors import ScaffoldError
from scaffold.core.ids import RunId
from scaffold.core.model import Run
from scaffold.git.common_dir import find_common_dir
from scaffold.host.contained_path import ContainedPath
from scaffold.host.startup import importing
from scaffold.run.projections import projection_places
from scaffold.store.driver.location import existing_state_location
from scaffold.views.journal_entries import entry_lines
from scaffold.views.name_lookup import action_if_any
from scaffold.views.run_view import RunView, read_run_view
from scaffold.views.store_reader import StoreReader, find_run, latest_run, store_reader_if_any
from scaffold.views.text_format import local_time
from scaffold.views.waiting import WaitingEntry
from scaffold.views.waiting_of_user import read_waiting_here

CPU_SHARE = 0.04
"""Of a core: what reading may take on average, whatever the size of the plan."""
STALE_S = 1.0
"""Times, processes and current steps change without an event."""
MAX_OUTPUT_LINES = 5_000


class WatchedAgent(Struct, frozen=True):
    """Whose output is shown: the agents of an action, else those whose name begins like this; all with neither."""

    action: str | None = None
    name: str = ""

    @property
    def title(self) -> str:
        """Return the words for it."""
        return self.action or self.name or "all agents"


class Shown(Struct, frozen=True, kw_only=True):
    """What the screen shows."""

    view: RunView | None = None
    """None without a run."""
    waiting: tuple[WaitingEntry, ...] = ()
    """What waits for the user in this repository, oldest first; finished runs also if git has their work elsewhere."""
    trouble: str = ""
    """Why nothing newer can be read; empty while reading works."""
    output: tuple[str, ...] = ()
    """The latest lines of the watched agent."""


class RunFeed:
    """Reads a run again and again. All calls must come from one thread, as the connection belongs to it."""

    def __init__(
        self,
        cwd: Path,
        environ: Mapping[str, str],
        run_name: str | None,
        *,
        cpu_share: float = CPU_SHARE,
        stale_s: float = STALE_S,
    ) -> None:
        """Show the run whose id begins with `run_name`, or the latest one."""
        self._cpu_share = cpu_share
        self._stale_s = stale_s
        self._cwd = cwd
        self._environ = environ
        self._name = run_name
        self._stack = ExitStack()
        self._reader: StoreReader | None = None
        self._opened: object = None
        self._run_id: RunId | None = None
        self._shown = Shown()
        self._seq = -1
        self._read_at = self._not_before = float("-inf")
        self._watched: WatchedAgent | None = None
        self._tails: dict[ContainedPath, Any] = {}
        self._lines = deque[str](maxlen=MAX_OUTPUT_LINES)
        self.reads = 0
        """How often everything was read."""

    def follow(self, run_name: str | None) -> None:
        """Show another run from now on."""
        self._name, self._run_id = run_name, None
        self._watch_agent(None)
        self.refresh()

    def refresh(self) -> None:
        """Read everything at the next look, even if nothing seems to have happened."""
        self._seq, self._not_before = -1, float("-inf")

    def look(self, watched: WatchedAgent | None) -> Shown | None:
        """Return what is new, None if nothing is; with `watched`, its output too. Raises no ScaffoldError."""
        started, before = time.monotonic(), self._shown
        if started < self._not_before:
            return None
        cpu = time.thread_time()
        try:
            self._shown = self._read_shown(watched, started)
        except ScaffoldError as problem:
            self._close_store()
            self._shown = structs.replace(before, trouble=f"{problem.what}. {problem.fix}")
            self._not_before = time.monotonic() + self._stale_s
        else:
            self._not_before = started + (time.thread_time() - cpu) / self._cpu_share
        return None if self._shown is before else self._shown

    def close(self) -> None:
        """Close the store."""
        self._close_store()

    def _close_store(self) -> None:
        self._stack.close()
        self._reader, self._seq = None, -1

    def _read_shown(self, watched: WatchedAgent | None, now: float) -> Shown:
        if self._reader is not None and now - self._read_at >= self._stale_s and self._state_file() != self._opened:
            # A purge removed it: what is open has no name any more, and stays as it was.
            self._close_store()
            self._run_id = None
        run = self._find_run()
        if self._reader is None or run is None:
            return self._shown if self._shown == Shown() else Shown()
        shown, seq = self._shown, self._reader.store.events.last_seq(run.id)
        if seq != self._seq or now - self._read_at >= self._stale_s or shown.trouble:
            self._seq, self._read_at = seq, now
            self.reads += 1
            view, waiting = read_run_view(self._reader, run), read_waiting_here(self._reader, self._reader.clock)
            shown = Shown(view=view, waiting=waiting, output=shown.output)
        if watched != self._watched:
            self._watch_agent(watched)
            shown = structs.replace(shown, output=())
        if watched is not None and self._read_output(self._reader, run, watched):
            shown = structs.replace(shown, output=tuple(self._lines))
        return shown

    def _find_run(self) -> Run | None:
        if self._reader is None:
            notes: list[str] = []
            self._opened = self._state_file()
            self._reader = self._stack.enter_context(store_reader_if_any(self._cwd, self._environ, show=notes.append))
        if self._reader is None:
            return None
        store = self._reader.store
        if self._run_id is not None and (known := store.runs.get(self._run_id)) is not None:
            return known
        run = find_run(self._reader, self._name) if self._name else latest_run(store, "any")
        self._run_id = run.id if run else None
        return run

    def _state_file(self) -> object:
        """Return what names the state of the repository: another value once it is removed, or made anew."""
        place = existing_state_location(find_common_dir(self._cwd), self._environ)
        try:
            return place.stat().st_ino if isinstance(place, Path) else place
        except FileNotFoundError:
            return None

    def _watch_agent(self, watched: WatchedAgent | None) -> None:
        self._watched = watched
        self._tails.clear()
        self._lines.clear()

    def _read_output(self, reader: StoreReader, run: Run, watched: WatchedAgent) -> bool:
        with importing():  # the first tab is shown without it
            from scaffold.views.journal_stream import agent_label, new_entries
        places = projection_places(reader.root, find_common_dir(self._cwd))
        only = action_if_any(reader, run, watched.action) if watched.action else None
        now, found = reader.clock.now(), False
        for entry in new_entries(reader.store, places, run, only, self._tails):
            label = agent_label(entry.fields)
            if label.startswith(watched.name):
                found = True
                head, *more = entry_lines(entry.fields) or [""]
                self._lines.append(f"{local_time(entry.at, now)} {label}  {head}")
                self._lines.extend(f"    {line}" for line in more)
        return found
