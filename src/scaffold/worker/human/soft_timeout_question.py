"""The soft timeout of an attempt: a human is asked to kill it or to wait, and it works on meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from scaffold.core.errors import StaleFence, StoreUnavailable
from scaffold.core.model import InboxItem
from scaffold.host.wake_fifo import wake_up
from scaffold.plan.failures.answers import ANSWERS, KILL, chosen_answer, extension_s, reserve_s
from scaffold.run.failures.soft_timeouts import granted_extensions, soft_timeout_question
from scaffold.worker.attempt_records import AttemptRecords

POLL_S = 1.0
"""Seconds between two looks at the time left and the answer."""


class SoftTimeout:
    """Watches the time of one attempt; what was asked and answered is in the store, so a kill loses none of it."""

    def __init__(self, records: AttemptRecords) -> None:
        """Watch the time limit of the records, which is extended here."""
        self._records = records
        self._limit = limit = records.activity.limit
        self._timeout_s = limit.limit_s
        self._reserve_s = reserve_s(limit.limit_s, records.task.run.settings.failures.soft_timeout)
        self._asked = 0
        self.killed = ""
        """Why a human ended the attempt; empty if none did."""

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Raise TimeoutError in the block at the end of the attempt's time, or once a human kills the attempt."""
        if self._reserve_s is not None:
            self._extend_limit(granted_extensions(self._records.store, self._records.task.attempt))
        async with self._limit.enforced() as enforced:
            watcher = asyncio.create_task(self._watch_limit(enforced))
            try:
                yield
            finally:
                watcher.cancel()
                await asyncio.wait([watcher])
            if not watcher.cancelled():
                watcher.result()

    async def _watch_limit(self, enforced: asyncio.Timeout) -> None:
        if self._reserve_s is None:
            return
        item: InboxItem | None = None
        while not self.killed:
            while item is None and (ahead_s := self._limit.left_s - self._reserve_s) > 0:
                await self._records.run_context.clock.sleep(min(ahead_s, POLL_S))
            try:
                item = item or self._ask_human()
                if item is None:
                    return
                await self._take_answer(item)
                item = None
            except StoreUnavailable:
                # It waits for its database, as its agent does; its time ends this.
                await self._records.run_context.clock.sleep(POLL_S)
            except StaleFence:
                return  # another process has ended the attempt, and its heartbeat says so
        enforced.reschedule(asyncio.get_running_loop().time())

    def _ask_human(self) -> InboxItem | None:
        if not self._asked:
            self._extend_limit(1)
        self._asked += 1
        # With `--yolo` no human is expected to answer.
        if self._records.task.run.settings.permissions.yolo:
            return None
        store, attempt = self._records.store, self._records.task.attempt
        left_s, now = self._limit.left_s, self._records.run_context.clock.now()
        used_s = self._limit.limit_s - left_s
        item = soft_timeout_question(self._records.task, self._asked, used_s=used_s, left_s=left_s, now=now)
        with store.transaction(durable=True):
            store.attempts.check(attempt.id, fence=attempt.fence)
            item = store.inbox.ask(item)
        wake_up(self._records.run_context.wake_fifo(attempt.run_id))
        return item

    async def _take_answer(self, item: InboxItem) -> None:
        # Without an answer the attempt's own time ends the wait.
        while (now := self._records.store.inbox.get(item.id)) is not None and now.state == "open":
            await self._records.run_context.clock.sleep(POLL_S)
        answer = chosen_answer(ANSWERS, (now.answer if now else None) or "")
        if answer is None:  # withdrawn: a decision is no longer needed
            await asyncio.Event().wait()
        elif answer.word == KILL:
            why = f": {answer.rest}" if answer.rest else ""
            self.killed = f"a human ended it after {self._limit.limit_s - self._limit.left_s:.0f} s{why}"
        else:
            self._extend_limit(1)

    def _extend_limit(self, extensions: int) -> None:
        self._limit.extend(extension_s(self._timeout_s, extensions))
