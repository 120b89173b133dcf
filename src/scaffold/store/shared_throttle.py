"""Rate limiting shared by all processes of a user: a rate limit hit by one of them makes all of them wait."""

import itertools
import secrets
from datetime import timedelta

from scaffold.core.errors import ModelUnavailable
from scaffold.core.ids import Ticket
from scaffold.core.model import ProcessIdentity
from scaffold.core.ports import Clock, CooldownHandler, RequestOutcome, ignore_cooldown
from scaffold.core.throttling import (
    UNTHROTTLED,
    ThrottleState,
    admits,
    after_request,
    cooldown_left_s,
    is_unavailable,
    limited_to,
    poll_delay_s,
)
from scaffold.host.process_identity import is_alive
from scaffold.host.random_ids import new_id
from scaffold.host.wall_clock import zoned_time
from scaffold.store.user_store import UserStore

DEAD_OWNER_CHECK_S = 1.0
"""Interval at which a waiting request checks for dead processes among those with requests in flight."""


class SharedThrottle:
    """Admission to all endpoints, stored in the user's database. Implements `core.ports.Throttle`; one per process.

    While an endpoint has no limit, a request only reads the database's version and writes nothing. Once limited, its
    requests in flight are counted in the database until the limit is removed.
    """

    def __init__(self, store: UserStore, *, clock: Clock, me: ProcessIdentity) -> None:
        self._store = store
        self._endpoints = store.endpoints
        self._clock = clock
        self._me = me
        self._names = map(f"{new_id()}-{{}}".format, itertools.count())
        self._in_flight: dict[Ticket, str] = {}
        self._counted: set[str] = set()
        """Endpoints whose requests in flight from this process are all counted in the database."""
        self._states: dict[str, ThrottleState] = {}
        self._version = -1
        self._next_check_s = clock.monotonic()

    async def enter(
        self,
        endpoint: str,
        *,
        timeout_s: float,
        on_cooldown: CooldownHandler = ignore_cooldown,
        most: int | None = None,
    ) -> Ticket:
        """Return when a request may start; raise ModelUnavailable at once if its cooldowns take more than `timeout_s`.

        The limit applies to the sum of all cooldowns of one call. Waiting for other requests to end is not limited.
        """
        told = False
        while True:
            state, now_s = limited_to(self._current_state(endpoint), most), self._now_s()
            cooldown_s = cooldown_left_s(state, now_s)
            if cooldown_s > timeout_s:
                raise self._cooldown_error(endpoint, state, cooldown_s)
            if cooldown_s:
                on_cooldown(cooldown_s)
                told = True
                # The caller hears of the first cooldown of a call only.
                on_cooldown = ignore_cooldown
            if cooldown_s == 0.0 and self._may_start(endpoint, state):
                ticket = Ticket(next(self._names))
                if state.max_in_flight is None or self._take_room(endpoint, ticket, most):
                    self._in_flight[ticket] = endpoint
                    return ticket
            if not told:
                on_cooldown(0.0)
            told = True
            delay_s = poll_delay_s(state, now_s, _random_share())
            timeout_s -= min(cooldown_s, delay_s)
            await self._clock.sleep(delay_s)

    def wait_s(self, endpoint: str) -> float:
        """Return the seconds left of the endpoint's cooldown; 0 if there is none."""
        return cooldown_left_s(self._current_state(endpoint), self._now_s())

    def lift(self, endpoint: str) -> None:
        """End the endpoint's cooldown, for all of the user's agents, and keep its limit of requests."""
        with self._store.transaction():
            self._endpoints.lift(endpoint)
        self._states.pop(endpoint, None)

    def leave(self, ticket: Ticket, verdict: RequestOutcome, *, retry_after_s: float | None = None) -> None:
        """Report how the request ended; `retry_after_s` is the wait the endpoint asked for with `limited`, or None."""
        endpoint = self._in_flight.pop(ticket)
        if (
            verdict in {"ok", "failed"}
            and endpoint not in self._counted
            and self._current_state(endpoint) == UNTHROTTLED
        ):
            return  # the request was never counted, even if other processes have hit a limit meanwhile
        with self._store.transaction():
            state, now_s = self._endpoints.state(endpoint), self._now_s()
            self._endpoints.give_back(ticket)
            if verdict in {"limited", "unavailable"}:
                self._count_in_flight(endpoint, again=state.max_in_flight is None)
            # This request was in flight when it ended, but its ticket has just been given back.
            in_flight = self._endpoints.in_flight(endpoint) + 1
            changed = after_request(
                state, verdict, now_s, retry_after_s=retry_after_s, in_flight=in_flight, jitter=_random_share()
            )
            if changed != state:  # without a limit of its own that would forget the requests in flight
                self._endpoints.set_state(endpoint, changed)
        # Our own commits do not change the data version, so `_current_state` would go on returning the old value.
        self._states[endpoint] = changed

    def _current_state(self, endpoint: str) -> ThrottleState:
        # Read again if another process may have changed it.
        # Before the state is read: a commit in between is then noticed at the next call.
        version = self._store.data_version()
        if version != self._version:
            self._states.clear()
            self._version = version
        state = self._states.get(endpoint)
        if state is None:
            state = self._states[endpoint] = self._endpoints.state(endpoint)
        return state

    def _may_start(self, endpoint: str, state: ThrottleState) -> bool:
        # Decided without the lock, so `_take_room` has to check again.
        if state.max_in_flight is None:
            self._counted.discard(endpoint)
            return True
        if endpoint not in self._counted:
            with self._store.transaction():
                self._count_in_flight(endpoint, again=True)
        if admits(state, self._now_s(), self._endpoints.in_flight(endpoint)):
            return True
        # The tickets of dead processes take room; looked for at most every DEAD_OWNER_CHECK_S.
        now_s = self._clock.monotonic()
        if now_s >= self._next_check_s:
            self._next_check_s = now_s + DEAD_OWNER_CHECK_S
            for owner in self._endpoints.owners(endpoint):
                if owner != self._me and not is_alive(owner):
                    with self._store.transaction():
                        self._endpoints.forget_owner(endpoint, owner)
        return False

    def _take_room(self, endpoint: str, ticket: Ticket, most: int | None) -> bool:
        """Count one more request if there is still room; return whether it was counted."""
        with self._store.transaction():
            state = limited_to(self._endpoints.state(endpoint), most)
            room = admits(state, self._now_s(), self._endpoints.in_flight(endpoint))
            if room:
                self._endpoints.take(endpoint, [ticket], self._me)
        return room

    def _count_in_flight(self, endpoint: str, *, again: bool) -> None:
        """Count this process's requests in flight in the database, once per period of limits; needs a transaction."""
        # Requests that started before the limit were not counted. Until they end they take room as well.
        if again or endpoint not in self._counted:
            tickets = [ticket for ticket, target in self._in_flight.items() if target == endpoint]
            self._endpoints.take(endpoint, tickets, self._me)
            self._counted.add(endpoint)

    def _now_s(self) -> float:
        """Return the wall-clock time, which all processes share."""
        return self._clock.now().timestamp()

    def _cooldown_error(self, endpoint: str, state: ThrottleState, cooldown_s: float) -> ModelUnavailable:
        until = self._clock.now() + timedelta(seconds=cooldown_s)
        when = f"{zoned_time(until)}, in {cooldown_s:.0f} s"
        down = is_unavailable(state)
        return ModelUnavailable(
            f"{endpoint} does not answer; asked again at {when}"
            if down
            else f"{endpoint} accepts no requests until {when}",
            "Continue after that time, or use another model; `scaffold doctor --fix` asks at once.",
            limited=True,
            retry_after_s=cooldown_s,
        )


def _random_share() -> float:
    return secrets.randbelow(1 << 20) / (1 << 20)
