"""Watch the endpoints of a run's models; while all are parked, no attempt starts, and the run says why."""

import asyncio
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime

from scaffold.agent.model_access import endpoint_name, open_user_store
from scaffold.core.events import NoticeRaised
from scaffold.core.executor_settings import NATIVE
from scaffold.core.model import Run
from scaffold.core.run_settings import program_model
from scaffold.core.throttling import UNTHROTTLED, ThrottleState, cooldown_left_s, is_unavailable
from scaffold.host.wall_clock import zoned_time
from scaffold.run.attempts.lease import owner_transaction
from scaffold.run.context import RunContext
from scaffold.store.user_store import UserStore

WATCH_POLL_S = 1.0
TELL_AFTER_S = 5.0
"""Shorter waits, as rate limits cause them, are not recorded."""
MAX_HOLD_S = 600.0
"""The longest time before an endpoint that does not answer is tried again; the time grows with the outage."""


class ModelWatch:
    """The endpoints of a run's models, whose state all processes of the user share; cassettes have none."""

    def __init__(self, context: RunContext, run: Run, notify: Callable[[], None]) -> None:
        """Call `notify` when one of the endpoints is back."""
        self._context = context
        self._run = run
        self._notify = notify
        executor = run.settings.worker_executor("")
        model = run.settings.model if executor == NATIVE else program_model(executor)
        # A program is named by its own name, and a model by its provider.
        found = {
            endpoint_name(name): name.removeprefix("executor:").partition(":")[0]
            for name in (model.name, *model.others)
        }
        self._providers = {endpoint: provider for endpoint, provider in found.items() if endpoint is not None}
        self._user: UserStore | None = None
        self._states = dict.fromkeys(self._providers, UNTHROTTLED)
        self._was_parked = False
        self._away_since: float | None = None
        self._told = ""

    @property
    def parked(self) -> bool:
        """Return whether no endpoint accepted requests at the last look."""
        return self._left_s() > 0.0

    @property
    def waits_for(self) -> str:
        """Return what the run waits for, and until when; empty if an endpoint accepts requests."""
        if not self._is_away():
            return ""
        endpoint, state = min(self._states.items(), key=lambda each: self._cooldown_s(each[1]))
        provider = self._providers[endpoint]
        if is_unavailable(state):
            return f"{provider}, which does not answer"
        return f"{provider} until {zoned_time(datetime.fromtimestamp(state.cooldown_until_s, UTC))}"

    async def watch(self) -> None:
        """Look at the endpoints until cancelled; record in the run when all are parked, and when one is back."""
        if not self._providers:
            await asyncio.Event().wait()
            return
        with closing(open_user_store()) as user:
            self._user = user
            try:
                while True:
                    self.look()
                    await self._context.clock.sleep(WATCH_POLL_S)
            finally:
                self._user = None

    async def until_away(self, wait_s: float) -> None:
        """Return once all endpoints were parked, or are known to be parked, for `wait_s` seconds in a row."""
        while self._away_since is None or self._now_s() - self._away_since + self._left_s() <= wait_s:
            await self._context.clock.sleep(WATCH_POLL_S)

    async def until_back(self) -> None:
        """Return once requests may be tried again: at the end of a limit, or some time after an endpoint went down."""
        now = self._now_s()
        held_until = now + min(now - (self._away_since or now), MAX_HOLD_S)
        while self.parked or (self._is_away() and self._now_s() < held_until):
            await self._context.clock.sleep(WATCH_POLL_S)
        # If it is not back, agents wait as long again.
        self._away_since = None

    def look(self) -> None:
        """Look at the endpoints now, if they are watched: agents that just ended may know more than the last look."""
        if self._user is None:
            return
        user = self._user
        self._states = {endpoint: user.endpoints.state(endpoint) for endpoint in self._providers}
        text = self.waits_for
        if not text:
            self._away_since = None
        elif self._away_since is None:
            self._away_since = self._now_s()
        if text != self._told and (self._told or self._left_s() > TELL_AFTER_S):
            self.tell()
        # Compared with the last look, because a cooldown that has run out leaves no trace in the states.
        was_parked, self._was_parked = self._was_parked, self.parked
        if was_parked and not self._was_parked:
            self._notify()

    def tell(self) -> None:
        """Record what the run waits for; a notice says when that begins and ends."""
        store, waits_for = self._context.store, self.waits_for
        with owner_transaction(store, self._run):
            store.runs.wait_for(self._run.id, waits_for, fence=self._run.fence)
            if waits_for and not self._told:
                store.events.append(self._run.id, NoticeRaised("warning", f"waiting for {waits_for}"))
            elif self._told and not waits_for:
                store.events.append(self._run.id, NoticeRaised("info", "the model accepts requests again"))
        self._told = waits_for

    def _is_away(self) -> bool:
        states = self._states.values()
        return bool(states) and all(is_unavailable(each) or self._cooldown_s(each) > 0.0 for each in states)

    def _left_s(self) -> float:
        return min(map(self._cooldown_s, self._states.values()), default=0.0)

    def _cooldown_s(self, state: ThrottleState) -> float:
        return cooldown_left_s(state, self._context.clock.now().timestamp())

    def _now_s(self) -> float:
        return self._context.clock.monotonic()
