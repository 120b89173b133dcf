"""A budget shared by many processes: admission of requests, waiting for others to settle, reservations of the dead."""

import math
import secrets
from contextlib import AbstractContextManager
from typing import Protocol

from scaffold.core.errors import BudgetExceeded
from scaffold.core.ids import ReservationId
from scaffold.core.model import ProcessIdentity, Usage
from scaffold.core.ports import Clock
from scaffold.core.printable_text import format_usd
from scaffold.host.identity import is_alive
from scaffold.host.random_ids import new_id
from scaffold.store.reservations import Reservation, Reservations

MIN_POLL_MS, MAX_POLL_MS = 20, 60
"""Random interval between two checks of a waiting request, so that waiters do not check all at once."""

ROUNDING_USD = 1e-9
"""Tolerance for rounding errors of sums when comparing with the limit."""

DEAD_OWNER_CHECK_S = 1.0
"""Interval at which a waiting request checks for dead processes in the queue."""


class BudgetAccount(Protocol):
    """One limit in one database: the amount spent, and the reservations."""

    id: str
    name: str
    """The account's name in messages."""
    fix: str
    """How a user continues once it is used up, as a sentence."""
    limit_usd: float | None
    """None for no limit."""
    largest_usd: float | None
    """What one request may cost at most by its estimate; None: a request may start while anything is left."""
    reservations: Reservations

    def transaction(self, *, durable: bool = False) -> AbstractContextManager[None]:
        """Return a block whose changes are committed together."""
        ...

    def spent_usd(self) -> float:
        """Return the amount spent so far; unknown costs count as 0."""
        ...

    def book(self, payer: str, usage: Usage) -> None:
        """Add `usage` to what `payer` has spent; needs a transaction."""
        ...

    def add_notice(self, notice: str) -> None:
        """Record a notice for the user about the budget; needs a transaction."""
        ...


class SharedBudget:
    """Reserves and books the cost of one payer's requests. Implements `core.ports.Budget`.

    A request may start while the amount spent plus all reservations is below the limit, and it is not too large by
    itself. So the limit is exceeded at most by the one request that reaches it, and by what requests cost beyond their
    estimates. Requests wait in a queue.
    """

    def __init__(self, account: BudgetAccount, *, payer: str, clock: Clock, owner: ProcessIdentity) -> None:
        self._account = account
        self._payer = payer
        self._clock = clock
        self._owner = owner
        self._next_check_s = clock.monotonic()

    async def reserve(self, estimate: Usage) -> ReservationId:
        """Reserve the estimated cost, in queue order; raise BudgetExceeded once the limit is used up."""
        account = self._account
        reservation = Reservation(
            id=ReservationId(new_id(16)),
            account=account.id,
            payer=self._payer,
            usd=estimate.cost_usd,
            owner=self._owner,
        )
        self._settle_dead_owners()
        with account.transaction(durable=True):
            # Read under the write lock, so that two requests cannot both take the last of the budget.
            room = remaining_usd(account)
            _refuse_if_too_large(account, estimate)
            account.reservations.ask(reservation)
            admitted = account.reservations.hold(reservation.id, room)
        if not admitted:
            await self._wait(reservation.id)
        return reservation.id

    def settle(self, reservation: ReservationId, usage: Usage) -> None:
        """Book the actual usage and release the reservation; safe to repeat."""
        # The request has been billed, so a power cut must not lose its cost.
        with self._account.transaction(durable=True):
            # None: the reservation was settled before, by this caller or by a process that took this one for dead.
            if self._account.reservations.free(reservation) is not None:
                self._account.book(self._payer, usage)

    async def _wait(self, reservation: ReservationId) -> None:
        """Return once the reservation is granted; on cancellation or an exceeded budget, leave the queue."""
        admitted = False
        try:
            while not admitted:
                await self._clock.sleep(_poll_delay_s())
                self._settle_dead_owners()
                admitted = self._hold(reservation)
        finally:
            if not admitted:
                with self._account.transaction():
                    self._account.reservations.free(reservation)

    def _hold(self, reservation: ReservationId) -> bool:
        """Grant the reservation if it is next; checks first without taking the lock."""
        account = self._account
        if not account.reservations.is_next(reservation, remaining_usd(account)):
            return False
        with account.transaction(durable=True):
            return account.reservations.hold(reservation, remaining_usd(account))

    def _settle_dead_owners(self) -> None:
        """Book the reservations of dead processes as spent, since their requests may have been billed."""
        if self._clock.monotonic() < self._next_check_s:
            return
        self._next_check_s = self._clock.monotonic() + DEAD_OWNER_CHECK_S
        settle_dead_owners(self._account, but=self._owner)


def remaining_usd(account: BudgetAccount) -> float:
    """Return the unspent amount, infinity without a limit; raise BudgetExceeded if there is none left."""
    limit_usd = account.limit_usd
    if limit_usd is None:
        return math.inf
    spent_usd = account.spent_usd()
    if spent_usd >= limit_usd - ROUNDING_USD:
        what = f"{account.name} of {format_usd(limit_usd)} is used up ({format_usd(spent_usd)} spent)"
        raise BudgetExceeded(what, account.fix)
    return limit_usd - spent_usd - ROUNDING_USD


def _refuse_if_too_large(account: BudgetAccount, estimate: Usage) -> None:
    """Raise BudgetExceeded for a request that alone would cost too much."""
    most_usd, cost_usd = account.largest_usd, estimate.cost_usd
    if most_usd is not None and cost_usd is not None and cost_usd > most_usd + ROUNDING_USD:
        what = (
            f"one request would cost about {format_usd(cost_usd)}, more than {account.name} of {format_usd(most_usd)}"
        )
        raise BudgetExceeded(what, account.fix)


def settle_dead_owners(account: BudgetAccount, *, but: ProcessIdentity) -> None:
    """Book each granted reservation of a dead process as spent, once, and remove its waiting ones.

    `but` is a process known to be alive: this one.
    """
    # Without the lock: the common case has no dead owner, and `free` returns a reservation to one caller only.
    reservations = account.reservations.of_account(account.id)
    dead = {owner for owner in {each.owner for each in reservations} - {but} if not is_alive(owner)}
    if not dead:
        return
    with account.transaction(durable=True):
        for each in reservations:
            lost = account.reservations.free(each.id) if each.owner in dead else None
            if lost is not None and lost.granted:
                account.book(lost.payer, Usage(cost_usd=lost.usd, requests=1))
                account.add_notice(_dead_owner_notice(lost))


def _dead_owner_notice(lost: Reservation) -> str:
    cost = "an unknown cost" if lost.usd is None else format_usd(lost.usd)
    return f"process {lost.owner.pid} died during a request; its reservation, {cost}, counts as spent"


def _poll_delay_s() -> float:
    return (MIN_POLL_MS + secrets.randbelow(MAX_POLL_MS - MIN_POLL_MS)) / 1000
