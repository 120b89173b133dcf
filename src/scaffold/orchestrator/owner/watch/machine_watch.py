"""Watch what a run needs from the machine: free disk space, and refs without a stale lock.

While something is missing, no attempt starts: it would be paid for and then lost.
"""

import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

from scaffold.core.events import NoticeRaised
from scaffold.core.model import Run
from scaffold.run.attempts.lease import owner_transaction
from scaffold.run.context import RunContext
from scaffold.verify.environment.golden import ENVIRONMENTS, EnvironmentUse, delete_unused

WATCH_POLL_S = 2.0
MIN_FREE_BYTES = 50_000_000
"""With less, even a small checkout has no room: the disk counts as full."""
USE_S = 600.0
"""Seconds between two notes that the run uses its prepared environment."""
UNUSED_S = 3_600.0
"""Seconds without use after which an environment may be deleted to make room."""
LOCK = "packed-refs.lock"
"""`git gc` holds it for a moment; if killed, it leaves the lock, and then no ref can be deleted."""
MAX_LOCKED_S = 10.0
"""Seconds after which a lock counts as stale."""


def free_bytes(folder: Path) -> int:
    """Return the free bytes for this user on the disk of an existing folder."""
    return shutil.disk_usage(folder).free


class MachineWatch:
    """Watches the disks of the repository and of the run's checkouts and temporary files, and the lock of the refs."""

    def __init__(
        self, context: RunContext, run: Run, notify: Callable[[], None], *, free: Callable[[Path], int] = free_bytes
    ) -> None:
        """Call `notify` when nothing is missing any more."""
        self._context = context
        self._run = run
        self._notify = notify
        self._free = free
        self.full = False
        """Whether the disk was full at the last look, so that failures say nothing about the work."""
        self.waits_for = ""
        """What was missing at the last look; empty if nothing was."""
        self._use = EnvironmentUse()
        self._used_at = 0.0
        """When the use was last noted, in seconds since 1970; 0 if never."""
        self._lock: tuple[int, int] | None = None
        self._locked_since = 0.0
        self._untold: NoticeRaised | None = None
        """The notice that is not recorded in the run yet."""

    async def watch(self) -> None:
        """Look until cancelled; record in the run when something is missing, and when it is back."""
        try:
            while True:
                self.look()
                await self._context.clock.sleep(WATCH_POLL_S)
        finally:
            self.close()

    def close(self) -> None:
        """Release the run's environment until the next look."""
        self._use.close()
        self._used_at = 0.0

    async def when_free(self, work: Callable[[], Awaitable[None]]) -> None:
        """Look until nothing is missing, then do the work."""
        self.look()
        while self.waits_for:
            await self._context.clock.sleep(WATCH_POLL_S)
            self.look()
        await work()

    def look(self) -> None:
        """Look at the machine now."""
        # First, because unused environments may be deleted below. Wall-clock time, because the note is compared with
        # times of files.
        now = self._context.clock.now().timestamp()
        if not 0 <= now - self._used_at < USE_S:
            baseline = self._context.store.baselines.for_run(self._run.id)
            if baseline is not None:
                self._used_at = now
                self._use.note(self._context.cache / ENVIRONMENTS, baseline.environment)
        full, locked, before = self._full_text(), self._locked_text(), self.waits_for
        self.waits_for = "room on the disk" if full else "a lock of git" if locked else ""
        if self.waits_for and self.waits_for != before:
            self._untold = NoticeRaised("warning", full or locked)
        elif before and not self.waits_for:
            again = "there is room on the disk again" if before.startswith("room") else "the lock of git is gone"
            self._untold = NoticeRaised("info", again)
            self._notify()
        if self._untold is not None:
            # If the database is on that disk, this fails and is tried again at the next look.
            store = self._context.store
            with owner_transaction(store, self._run):
                store.runs.wait_for(self._run.id, self.waits_for, fence=self._run.fence)
                store.events.append(self._run.id, self._untold)
            self._untold = None

    def _full_text(self) -> str:
        """Return the notice about a disk without room, after deleting unused environments; empty if all have room."""
        floor = max(MIN_FREE_BYTES, int(self._run.settings.keep.free_mb * 1e6))
        free, folder = self._least_room(floor)
        unused_since = self._context.clock.now().timestamp() - UNUSED_S
        if free < floor and delete_unused(self._context.cache / ENVIRONMENTS, before=unused_since):
            free, folder = self._least_room(floor)
        self.full = free < MIN_FREE_BYTES
        if free >= floor:
            return ""
        state = "the disk is full" if self.full else "the disk is nearly full"
        room = f"{free / 1e6:.0f} MB left at {folder}"
        return f"{state}, {room}: nothing new starts until there are {floor / 1e6:.0f} MB (`keep.free_mb`)"

    def _least_room(self, otherwise: int) -> tuple[int, Path]:
        folders = [each for each in (self._context.repository.common_dir, self._context.cache) if each.is_dir()]
        return min(((self._free(each), each) for each in folders), default=(otherwise, Path("/")))

    def _locked_text(self) -> str:
        path = self._context.repository.common_dir / LOCK
        try:
            status = path.stat()
        except OSError:
            self._lock = None
            return ""
        lock, now = (status.st_ino, status.st_mtime_ns), self._context.clock.monotonic()
        if lock != self._lock:
            self._lock, self._locked_since = lock, now
        why = "nothing new starts until it is gone. If no git command runs, one that was killed left it: delete it"
        return f"git has locked its refs, by {path}: {why}" if now - self._locked_since >= MAX_LOCKED_S else ""
