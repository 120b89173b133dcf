"""Watch the room on the disks that a run writes to: while there is none, no attempt starts."""

import shutil
from collections.abc import Callable
from pathlib import Path

from scaffold.core.events import NoticeRaised
from scaffold.core.model import Run
from scaffold.run.context import RunContext
from scaffold.run.lease import owner_transaction

WATCH_POLL_S = 2.0
MIN_FREE_BYTES = 50_000_000
"""With less, not even a small checkout and what its agent writes have room."""


def free_bytes(folder: Path) -> int:
    """Return the room on the disk of an existing folder, for this user."""
    return shutil.disk_usage(folder).free


class DiskWatch:
    """The disks of the repository, of the run's checkouts and of its temporary files."""

    def __init__(
        self, context: RunContext, run: Run, notify: Callable[[], None], *, free: Callable[[Path], int] = free_bytes
    ) -> None:
        """`notify` is called when there is room again."""
        self._context = context
        self._run = run
        self._notify = notify
        self._free = free
        self.full = False
        """Whether there was no room at the last look."""
        self._untold: NoticeRaised | None = None
        """What is not recorded in the run yet."""

    async def watch(self) -> None:
        """Look at the disks until cancelled; say in the run when one is full, and when there is room again."""
        while True:
            self.look()
            await self._context.clock.sleep(WATCH_POLL_S)

    def look(self) -> None:
        """Look at the disks now."""
        folders = [each for each in (self._context.repository.common_dir, self._context.cache) if each.is_dir()]
        free, folder = min(((self._free(each), each) for each in folders), default=(MIN_FREE_BYTES, Path("/")))
        was_full, self.full = self.full, free < MIN_FREE_BYTES
        if self.full and not was_full:
            room = f"{free / 1e6:.0f} MB left at {folder}"
            self._untold = NoticeRaised("warning", f"the disk is full, {room}: nothing new starts until there is room")
        elif was_full and not self.full:
            self._untold = NoticeRaised("info", "there is room on the disk again")
            self._notify()
        if self._untold is not None:
            # The database may be on that disk: then this fails, and is tried again at the next look.
            self._tell(self._untold)
            self._untold = None

    def _tell(self, notice: NoticeRaised) -> None:
        store, waits_for = self._context.store, "room on the disk" if self.full else ""
        with owner_transaction(store, self._run):
            store.runs.wait_for(self._run.id, waits_for, fence=self._run.fence)
            store.events.append(self._run.id, notice)
