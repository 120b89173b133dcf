"""Repeat tasks that fail because of the machine (git, database, file system), which says nothing about the work."""

import errno
from collections.abc import Awaitable, Callable
from contextlib import suppress

from scaffold.core.errors import (
    GitError,
    PermanentGitError,
    ScaffoldError,
    StaleFence,
    StoreError,
    StoreReadOnly,
    StoreUnavailable,
)
from scaffold.core.events import NoticeRaised
from scaffold.core.model import Run
from scaffold.run.attempts.lease import owner_transaction
from scaffold.run.context import RunContext

MACHINE_FAULTS = (GitError, StoreUnavailable, OSError)
FIRST_WAIT_S = 0.5
MAX_WAIT_S = 15.0
RECOVERED_S = 5.0
FAULT_S = 60.0
"""How long a fault may last before it is raised."""
OUTAGE_S = 1800.0
"""How long an unavailable database or a full disk may last before it is raised."""
LASTING_FAULTS = (PermanentGitError, StoreReadOnly)
"""Those that someone has to remove: repeating anything only costs time."""
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class FaultRepeater:
    """Repeats the tasks of a run's owner, which may start again because all their state is in the store."""

    def __init__(self, context: RunContext, run: Run, *, fault_s: float = FAULT_S, outage_s: float = OUTAGE_S) -> None:
        self._context = context
        self._run = run
        self._fault_s = fault_s
        self._outage_s = outage_s

    async def run(self, task: Callable[[], Awaitable[None]]) -> None:
        """Run the task, again after each fault with growing pauses; raise a fault that lasts, or is known to.

        A task that has run for RECOVERED_S counts as recovered, because a lasting fault fails it at once.
        """
        wait_s, since = FIRST_WAIT_S, self._now_s()
        while True:
            began = self._now_s()
            try:
                return await task()
            except (StaleFence, *LASTING_FAULTS):
                raise
            except MACHINE_FAULTS as error:
                if isinstance(error, OSError) and error.errno == errno.EROFS:
                    raise
                now = self._now_s()
                if now - began > RECOVERED_S:
                    wait_s, since = FIRST_WAIT_S, now
                is_outage = isinstance(error, StoreUnavailable) or (isinstance(error, OSError) and error.errno in _FULL)
                if now + wait_s - since > (self._outage_s if is_outage else self._fault_s):
                    raise
                # Once, and only if the store can be written.
                what = error.what if isinstance(error, ScaffoldError) else str(error)
                notice = NoticeRaised("warning", self._context.redactor.clean(f"{what}; this is tried again"))
                with suppress(StoreError), owner_transaction(self._context.store, self._run):
                    if not self._context.store.events.has_notice(self._run.id, notice):
                        self._context.store.events.append(self._run.id, notice)
            await self._context.clock.sleep(wait_s)
            wait_s = min(2 * wait_s, MAX_WAIT_S)

    def _now_s(self) -> float:
        return self._context.clock.monotonic()
