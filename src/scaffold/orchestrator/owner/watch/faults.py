"""Repeat what fails because of the machine: git, the database or the file system, which say nothing about the work."""

import errno
from collections.abc import Awaitable, Callable
from contextlib import suppress

from scaffold.core.errors import GitError, ScaffoldError, StaleFence, StoreError, StoreUnavailable
from scaffold.core.events import NoticeRaised
from scaffold.core.model import Run
from scaffold.run.attempts.lease import owner_transaction
from scaffold.run.context import RunContext

MACHINE_FAULTS = (GitError, StoreUnavailable, OSError)
FIRST_WAIT_S = 0.5
MAX_WAIT_S = 15.0
RECOVERED_S = 5.0
FAULT_S = 60.0
"""How long a fault is taken for a passing one."""
OUTAGE_S = 1800.0
"""How long a database that is away, or a full disk, is waited for."""
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class FaultRepeater:
    """Repeats the tasks of one run's owner. All of their state is in the store, so a task may begin again."""

    def __init__(self, context: RunContext, run: Run, *, fault_s: float = FAULT_S, outage_s: float = OUTAGE_S) -> None:
        self._context = context
        self._run = run
        self._fault_s = fault_s
        self._outage_s = outage_s

    async def run(self, task: Callable[[], Awaitable[None]]) -> None:
        """Run the task, again after each fault with growing pauses; raise a fault that does not pass.

        A task that has worked for RECOVERED_S is taken for recovered: one whose fault lasts fails at once.
        """
        wait_s, since = FIRST_WAIT_S, self._now_s()
        while True:
            began = self._now_s()
            try:
                return await task()
            except StaleFence:
                raise
            except MACHINE_FAULTS as error:
                now = self._now_s()
                if now - began > RECOVERED_S:
                    wait_s, since = FIRST_WAIT_S, now
                if now + wait_s - since > self._limit_s(error):
                    raise
                self._record_fault(error)
            await self._context.clock.sleep(wait_s)
            wait_s = min(2 * wait_s, MAX_WAIT_S)

    def _limit_s(self, error: Exception) -> float:
        return self._outage_s if isinstance(error, StoreUnavailable) or is_disk_full(error) else self._fault_s

    def _record_fault(self, error: Exception) -> None:
        """Record the fault, once, if the store can be written."""
        what = error.what if isinstance(error, ScaffoldError) else str(error)
        notice = NoticeRaised("warning", self._context.redactor.clean(f"{what}; this is tried again"))
        with suppress(StoreError), owner_transaction(self._context.store, self._run):
            if not self._context.store.events.has_notice(self._run.id, notice):
                self._context.store.events.append(self._run.id, notice)

    def _now_s(self) -> float:
        return self._context.clock.monotonic()


def is_disk_full(error: Exception) -> bool:
    """Return whether the error says that a disk, or the user's share of it, is full."""
    return isinstance(error, OSError) and error.errno in _FULL
