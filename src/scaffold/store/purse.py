"""One limit, many spenders: who may start a request, who waits for others to settle, and what the dead owe."""

import math
import secrets
from contextlib import AbstractContextManager
from typing import Protocol

from scaffold.core.errors import BudgetSpent
from scaffold.core.ids import ReservationId
from scaffold.core.model import ProcessIdentity, Usage
from scaffold.core.money import dollars
from scaffold.core.ports import Clock
from scaffold.host.identity import alive
from scaffold.host.ids import new_id
from scaffold.store.reservations import Reservation, Reservations

SHORTEST_NAP_MS, LONGEST_NAP_MS = 20, 60
"""Between looks of somebody who waits; at random, so that those who wait do not look together."""

DUST_USD = 1e-9
"""Sums of fractions may be off by this much: a limit that is reached but for it is reached."""

PATROL_S = 1.0
"""How often somebody who waits looks whether those ahead are still alive."""


class Account(Protocol):
    """One limit in one database: what was spent of it, and who has money set aside."""

    id: str
    name: str
    """What it is called in front of people."""
    way_on: str
    """What people do about it once it is used up: a sentence."""
    limit_usd: float | None
    """None for as much as anybody likes."""
    reservations: Reservations

    def transaction(self, *, durable: bool = False) -> AbstractContextManager[None]:
        """Return a block whose changes are committed together."""
        ...

    def spent_usd(self) -> float:
        """Return what was spent so far; an unknown cost counts as nothing."""
        ...

    def book(self, payer: str, usage: Usage) -> None:
        """Write down what was spent; part of a transaction."""
        ...

    def tell(self, notice: str) -> None:
        """Write down, for people, what happened to the money; part of a transaction."""
        ...


class Purse:
    """Sets money aside and books what was spent, for one payer. Implements `core.ports.Budget`.

    A request may start while what is spent and what others have set aside is below the limit: so it is passed by
    less than the one request that reaches it, and by what requests cost beyond their estimates. Whoever has to wait
    waits in line.
    """

    def __init__(self, account: Account, *, payer: str, clock: Clock, owner: ProcessIdentity) -> None:
        self._account = account
        self._payer = payer
        self._clock = clock
        self._owner = owner
        self._patrol_at_s = clock.monotonic()

    async def reserve(self, estimate: Usage) -> ReservationId:
        """Set aside what a request may cost, in turn; raises BudgetSpent once the limit is used up."""
        account = self._account
        wanted = Reservation(
            id=ReservationId(new_id(16)),
            account=account.id,
            payer=self._payer,
            usd=estimate.cost_usd,
            owner=self._owner,
        )
        self._patrol()
        with account.transaction(durable=True):
            room = room_usd(account)
            account.reservations.ask(wanted)
            admitted = account.reservations.hold(wanted.id, room)
        if not admitted:
            await self._wait(wanted.id)
        return wanted.id

    def settle(self, reservation: ReservationId, usage: Usage) -> None:
        """Book what the request really used and free what was set aside; repeating it changes nothing."""
        with self._account.transaction(durable=True):
            if self._account.reservations.free(reservation) is not None:
                self._account.book(self._payer, usage)

    async def _wait(self, wanted: ReservationId) -> None:
        """Return once the money is set aside; whoever is cancelled, or finds the limit used up, leaves the line."""
        admitted = False
        try:
            while not admitted:
                await self._clock.sleep(_nap_s())
                self._patrol()
                admitted = self._hold(wanted)
        finally:
            if not admitted:
                with self._account.transaction():
                    self._account.reservations.free(wanted)

    def _hold(self, wanted: ReservationId) -> bool:
        """Set the money aside if it is next; looks before it takes the lock."""
        account = self._account
        if not account.reservations.is_next(wanted, room_usd(account)):
            return False
        with account.transaction(durable=True):
            return account.reservations.hold(wanted, room_usd(account))

    def _patrol(self) -> None:
        """Settle, from time to time, what processes that died had set aside: it may have been billed."""
        if self._clock.monotonic() < self._patrol_at_s:
            return
        self._patrol_at_s = self._clock.monotonic() + PATROL_S
        bury_dead(self._account, but=self._owner)


def room_usd(account: Account) -> float:
    """Return what is not spent of the limit, infinity without one; raises BudgetSpent if that is nothing."""
    limit_usd = account.limit_usd
    if limit_usd is None:
        return math.inf
    spent_usd = account.spent_usd()
    if spent_usd >= limit_usd - DUST_USD:
        what = f"{account.name} of {dollars(limit_usd)} is used up ({dollars(spent_usd)} spent)"
        raise BudgetSpent(what, account.way_on)
    return limit_usd - spent_usd - DUST_USD


def bury_dead(account: Account, *, but: ProcessIdentity) -> None:
    """Book what dead processes had set aside as spent, each once, and take them out of the line.

    `but` is a process that is known to live: this one.
    """
    there = account.reservations.of_account(account.id)
    dead = {owner for owner in {each.owner for each in there} - {but} if not alive(owner)}
    if not dead:
        return
    with account.transaction(durable=True):
        for each in there:
            lost = account.reservations.free(each.id) if each.owner in dead else None
            if lost is not None and lost.held:
                account.book(lost.payer, Usage(cost_usd=lost.usd, requests=1))
                account.tell(_obituary(lost))


def _obituary(lost: Reservation) -> str:
    cost = "an unknown cost" if lost.usd is None else dollars(lost.usd)
    return f"process {lost.owner.pid} died during a request: what it had set aside, {cost}, counts as spent"


def _nap_s() -> float:
    return (SHORTEST_NAP_MS + secrets.randbelow(LONGEST_NAP_MS - SHORTEST_NAP_MS)) / 1000
