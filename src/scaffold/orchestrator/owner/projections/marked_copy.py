"""A copy of a list of tasks that is not the repository's, with the tasks marked as done that are."""

import asyncio
import contextlib
from pathlib import Path

from scaffold.core.errors import PlanInvalid
from scaffold.core.ids import ActionKey
from scaffold.core.model import Run
from scaffold.core.run_settings import WriteBack
from scaffold.core.states import Completed
from scaffold.host.atomic_files import write_atomic
from scaffold.plan.source.formats import with_done
from scaffold.run.context import RunContext

MARKED = "marked"
"""The folder of these copies in the projections, by run."""


class MarkedCopy:
    """The copy of one run's list."""

    def __init__(self, context: RunContext, run: Run) -> None:
        self._context = context
        self._run = run
        self._path = marked_copy(context, run)
        self._written: tuple[frozenset[ActionKey], int] | None = None

    async def write(self) -> None:
        """Write the list as it is now, with what is done marked, if either has changed since.

        A list that cannot be read leaves the copy as it is: the store is what counts.
        """
        listed = self._run.settings.landing.write_back
        if self._path is None or listed is None:
            return
        actions = self._context.store.actions.of_run(self._run.id)
        done = frozenset(each.key for each in actions if isinstance(each.state, Completed))
        with contextlib.suppress(OSError, PlanInvalid, UnicodeDecodeError):
            now = done, _changed_at(listed)
            if now != self._written or not self._path.exists():
                await asyncio.to_thread(_write_copy, listed, self._path, done)
                self._written = now


def marked_copy(context: RunContext, run: Run) -> Path | None:
    """Return the path of the copy; None for a run that marks tasks in its commits, or nowhere."""
    listed = run.settings.landing.write_back
    if listed is None or listed.tracked:
        return None
    return context.projections / MARKED / run.id / Path(listed.path).name


def _changed_at(listed: WriteBack) -> int:
    return Path(listed.path).stat().st_mtime_ns


def _write_copy(listed: WriteBack, path: Path, done: frozenset[ActionKey]) -> None:
    text = Path(listed.path).read_bytes().decode()
    marked = with_done(listed.format, text, done, name=listed.path).text.encode()
    if not path.exists() or path.read_bytes() != marked:
        write_atomic(path, marked)
