"""The back-off that all processes of a user share: when one of them is refused, they all hold back."""

import itertools
import secrets
from datetime import timedelta

from scaffold.core.errors import ModelTrouble
from scaffold.core.ids import Ticket
from scaffold.core.model import ProcessIdentity
from scaffold.core.ports import Clock, Parked, Verdict, untold
from scaffold.core.throttling import FREE, Pace, admits, limited, nap_s, succeeded, wait_s
from scaffold.host.identity import alive
from scaffold.host.ids import new_id
from scaffold.store.user import UserStore

PATROL_S = 1.0
"""How often somebody who waits looks whether those whose requests are under way are still alive."""


class SharedThrottle:
    """The way to every endpoint, in the user's database. Implements `core.ports.Throttle`; one for each process.

    While nothing is refused, a request costs one look at the database's version, and nothing is written. Once an
    endpoint is limited, requests under way to it are counted in the database, until it is free again.
    """

    def __init__(self, store: UserStore, *, clock: Clock, me: ProcessIdentity) -> None:
        self._store = store
        self._endpoints = store.endpoints
        self._clock = clock
        self._me = me
        self._names = map(f"{new_id()}-{{}}".format, itertools.count())
        self._under_way: dict[Ticket, str] = {}
        self._counted: set[str] = set()
        """Endpoints whose requests from this process are all counted in the database."""
        self._paces: dict[str, Pace] = {}
        self._version = -1
        self._patrol_at_s = clock.monotonic()

    async def enter(self, endpoint: str, *, patience_s: float, parked: Parked = untold) -> Ticket:
        """Return when a request may start; raises ModelTrouble at once if its parks take longer than `patience_s`.

        All parks of one call count together. Waiting for requests of others to end takes as long as it takes.
        """
        while True:
            pace, now_s = self._pace(endpoint), self._now_s()
            parked_s = wait_s(pace, now_s)
            if parked_s > patience_s:
                raise self._refusal(endpoint, parked_s)
            if parked_s:
                parked(parked_s)
                parked = untold
            if parked_s == 0.0 and self._may_start(endpoint, pace):
                ticket = Ticket(next(self._names))
                if pace.width is None or self._take(endpoint, ticket):
                    self._under_way[ticket] = endpoint
                    return ticket
            patience_s -= parked_s
            await self._clock.sleep(nap_s(pace, now_s, _jitter()))

    def wait_s(self, endpoint: str) -> float:
        """Return how long the endpoint is parked from now, in seconds; 0 if it is not."""
        return wait_s(self._pace(endpoint), self._now_s())

    def leave(self, ticket: Ticket, verdict: Verdict, *, retry_after_s: float | None = None) -> None:
        """Tell how the request ended; `retry_after_s` is the endpoint's own wish after `limited`."""
        endpoint = self._under_way.pop(ticket)
        if verdict != "limited" and self._paces.get(endpoint, FREE).width is None and endpoint not in self._counted:
            return  # nothing was written for it, whatever others found out meanwhile
        with self._store.transaction():
            pace, now_s = self._endpoints.pace(endpoint), self._now_s()
            self._endpoints.give_back(ticket)
            changed = pace
            if verdict == "limited":
                self._count(endpoint, anew=pace.width is None)
                in_flight = self._endpoints.in_flight(endpoint) + 1
                changed = limited(pace, now_s, retry_after_s, in_flight, _jitter())
            elif verdict == "ok":
                changed = succeeded(pace, now_s)
            self._endpoints.set_pace(endpoint, changed)
        self._paces[endpoint] = changed

    def _pace(self, endpoint: str) -> Pace:
        """Return the endpoint's pace; reads it if another process may have changed it."""
        version = self._store.data_version()
        if version != self._version:
            self._paces.clear()
            self._version = version
        pace = self._paces.get(endpoint)
        if pace is None:
            pace = self._paces[endpoint] = self._endpoints.pace(endpoint)
        return pace

    def _may_start(self, endpoint: str, pace: Pace) -> bool:
        """Tell whether there is room, as far as can be seen without taking the lock."""
        if pace.width is None:
            self._counted.discard(endpoint)
            return True
        if endpoint not in self._counted:
            with self._store.transaction():
                self._count(endpoint, anew=True)
        if admits(pace, self._now_s(), self._endpoints.in_flight(endpoint)):
            return True
        self._patrol(endpoint)
        return False

    def _take(self, endpoint: str, ticket: Ticket) -> bool:
        """Count one more request, if there is still room for it."""
        with self._store.transaction():
            pace = self._endpoints.pace(endpoint)
            room = admits(pace, self._now_s(), self._endpoints.in_flight(endpoint))
            if room:
                self._endpoints.take(endpoint, [ticket], self._me)
        return room

    def _count(self, endpoint: str, *, anew: bool) -> None:
        """Count in the database what this process has under way, once for each time of trouble; in a transaction."""
        if anew or endpoint not in self._counted:
            mine = [ticket for ticket, target in self._under_way.items() if target == endpoint]
            self._endpoints.take(endpoint, mine, self._me)
            self._counted.add(endpoint)

    def _patrol(self, endpoint: str) -> None:
        """Take away, from time to time, the tickets of processes that died."""
        now_s = self._clock.monotonic()
        if now_s < self._patrol_at_s:
            return
        self._patrol_at_s = now_s + PATROL_S
        for owner in self._endpoints.owners(endpoint):
            if owner != self._me and not alive(owner):
                with self._store.transaction():
                    self._endpoints.forget_owner(endpoint, owner)

    def _now_s(self) -> float:
        """Return the time that all processes go by."""
        return self._clock.now().timestamp()

    def _refusal(self, endpoint: str, parked_s: float) -> ModelTrouble:
        until = self._clock.now() + timedelta(seconds=parked_s)
        return ModelTrouble(
            f"{endpoint} takes no requests before {until:%Y-%m-%d %H:%M:%S} UTC, in {parked_s:.0f} s",
            "Go on then, or with another model.",
            limited=True,
            retry_after_s=parked_s,
        )


def _jitter() -> float:
    """Return a random number from 0 up to 1."""
    return secrets.randbelow(1 << 20) / (1 << 20)
