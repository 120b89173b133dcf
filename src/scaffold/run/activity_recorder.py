"""Record what a process of a run is doing, once it lasts, and how long each command took."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from scaffold.core.errors import StoreError
from scaffold.core.ids import AttemptId
from scaffold.core.model import Activity, CurrentActivity, Run
from scaffold.run.context import RunContext

SHOWN_AFTER_S = 0.5
"""Shorter activities are not recorded: they end before anyone reads them, and writing would slow them down."""


class ActivityRecorder:
    """Records the activities of an attempt, or of the owner's work for the run as a whole; they may be nested."""

    def __init__(self, context: RunContext, run: Run, *, attempt_id: AttemptId | None = None, stage: str = "") -> None:
        """`stage` names in one word what the activities are part of; empty for an attempt, which has its phase."""
        self._context = context
        self._run = run
        self._attempt_id = attempt_id
        self._stage = stage
        self._shown: list[CurrentActivity] = []
        """The activities that are recorded, the innermost last."""

    @asynccontextmanager
    async def during(self, work: Activity) -> AsyncIterator[None]:
        """Record `work` as the current activity while the block runs, and its duration if it ends without an error.

        A store that cannot be written does not disturb the work, whose own records say what is wrong.
        """
        clock = self._context.clock
        began_s = clock.monotonic()
        activity = CurrentActivity(
            run_id=self._run.id,
            attempt_id=self._attempt_id,
            fence=self._run.fence,
            stage=self._stage,
            work=work,
            since=clock.now(),
        )
        showing = asyncio.create_task(self._show_later(activity))
        ended = False
        try:
            yield
            ended = True
        finally:
            # Ended first, so that it cannot show the activity after it was cleared.
            showing.cancel()
            await asyncio.wait([showing])
            took_s = clock.monotonic() - began_s
            self._stop_showing(activity, took_s if ended and took_s >= SHOWN_AFTER_S else None)

    async def _show_later(self, activity: CurrentActivity) -> None:
        await self._context.clock.sleep(SHOWN_AFTER_S)
        self._shown.append(activity)
        with suppress(StoreError), self._context.store.transaction():
            self._context.store.activities.set(activity)

    def _stop_showing(self, activity: CurrentActivity, took_s: float | None) -> None:
        was_shown = activity in self._shown
        if was_shown:
            self._shown.remove(activity)
        # A part of the tests, or a wait, does not tell how long the command takes.
        measured = took_s is not None and activity.work.is_whole
        if not was_shown and not measured:
            return
        store = self._context.store
        with suppress(StoreError), store.transaction():
            if took_s is not None and measured:
                store.activities.keep_duration(activity.work, took_s)
            # The activity around this one goes on, so it is shown again.
            if was_shown and self._shown:
                store.activities.set(self._shown[-1])
            elif was_shown:
                store.activities.clear(activity)
