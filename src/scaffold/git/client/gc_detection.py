"""Detect a `git gc` by the user, which can delete objects that a ref has just started to need.

`git gc --prune=now` lists the reachable objects first and deletes the others later. An object that becomes reachable
in between is deleted all the same. So after a ref was moved to something new, its objects must be verified.
"""

import asyncio
import contextlib
import os
from pathlib import Path

from scaffold.core.errors import RepositoryError
from scaffold.git.common_dir import find_common_dir

POLL_S = 0.05
MAX_WAIT_S = 120.0
"""If a collection takes longer, the next step that meets it waits again."""

Mark = tuple[int, int] | None
"""When `packed-refs` was last written."""


class CollectionWatch:
    """Detects collections in a repository by their traces: `git gc` has a pid file and rewrites `packed-refs`."""

    def __init__(self, folder: Path) -> None:
        """Watch the repository around `folder`; outside a repository, nothing is ever detected."""
        self._git_dir: Path | None = None
        with contextlib.suppress(RepositoryError, OSError):
            self._git_dir = find_common_dir(folder)
        self._settled = self._packed_refs_mark()

    def has_run(self) -> bool:
        """Return whether a collection runs, or has run since the watch began or was last settled."""
        return self._running_pid() is not None or self._packed_refs_mark() != self._settled

    async def end(self) -> Mark:
        """Wait until a running collection ends; return the mark for `settle`. A later collection sees all refs."""
        end, first = asyncio.get_running_loop().time() + MAX_WAIT_S, self._running_pid()
        while first is not None and self._running_pid() == first and asyncio.get_running_loop().time() < end:  # noqa: ASYNC110 - another program's end
            await asyncio.sleep(POLL_S)
        return self._packed_refs_mark()

    def settle(self, mark: Mark) -> None:
        """Detect only collections after that mark: at the mark, no object was missing."""
        self._settled = mark

    def _packed_refs_mark(self) -> Mark:
        if self._git_dir is None:
            return None
        try:
            status = (self._git_dir / "packed-refs").stat()
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns

    def _running_pid(self) -> int | None:
        if self._git_dir is None:
            return None
        try:
            pid = int((self._git_dir / "gc.pid").read_text().split()[0])
        except (OSError, ValueError, IndexError):
            return None
        try:
            os.kill(pid, 0)
        except (ProcessLookupError, OverflowError):
            return None
        except PermissionError:
            return pid  # a living process of another user
        return pid
