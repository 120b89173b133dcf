"""A budget shared by many processes: admission of requests, waiting for others to settle, reservations of the dead."""

from contextlib import AbstractContextManager
from typing import Protocol

from msgspec import structs

from scaffold.core.errors import BudgetExceeded
from scaffold.core.ids import ReservationId
from scaffold.core.model import ProcessIdentity, Usage
from scaffold.core.ports import Clock
from scaffold.core.printable_text import format_usd
from scaffold.core.spending import AccountTotals, Amount, Spender, SpendingLimits
from scaffold.host.process_identity import is_alive
from scaffold.host.random_ids import new_id, random_below
from scaffold.plan.budget import ROUNDING_USD, BudgetUse, reached_warning
from scaffold.store.reservations import Reservation, Reservations

MIN_POLL_MS, MAX_POLL_MS = 20, 60
"""Random interval between two checks of a waiting request, so that waiters do not check all at once."""

DEAD_OWNER_CHECK_S = 1.0
"""Interval at which a waiting request checks for dead processes in the queue."""


class BudgetAccount(Protocol):
    """The limits of one account in one database: the totals, and the reservations."""

    id: str
    name: str
    """The account's name in messages."""
    limits: SpendingLimits
    largest_usd: float | None
    """What one request may cost at most by its estimate; None: a request may start while anything is left."""
    reservations: Reservations

    def transaction(self, *, durable: bool = False) -> AbstractContextManager[None]:
        """Return a block whose changes are committed together."""

    def totals(self) -> AccountTotals:
        """Return all that is booked; unknown costs count as 0."""

    def book(self, payer: str, spender: Spender, usage: Usage, *, error_tokens: int) -> None:
        """Add `usage` to what `payer` has spent; needs a transaction."""

    def add_notice(self, notice: str) -> None:
        """Record a notice for the user about the budget; needs a transaction."""

    def fix(self, use: BudgetUse) -> str:
        """Return how a user continues once it is used up, as a sentence."""


class SharedBudget:
    """Reserves and books the usage of one payer's requests. Implements `core.ports.Budget`.

    A request may start while what is spent plus all reservations is below both limits, and it is not too large by
    itself. So a limit is exceeded at most by the one request that reaches it, and by what requests use beyond their
    estimates. Requests wait in a queue.
    """

    def __init__(
        self, account: BudgetAccount, *, payer: str, spender: Spender, clock: Clock, owner: ProcessIdentity
    ) -> None:
        self._account = account
        self._payer = payer
        self._spender = spender
        self._clock = clock
        self._owner = owner
        self._next_check_s = clock.monotonic()

    async def reserve(self, estimate: Usage) -> ReservationId:
        """Reserve the estimated usage, in queue order; raise BudgetExceeded once a limit is used up."""
        account = self._account
        reservation = Reservation(
            id=ReservationId(new_id(16)),
            account=account.id,
            payer=self._payer,
            spender=self._spender,
            estimate=estimate,
            owner=self._owner,
        )
        self._settle_dead_owners()
        with account.transaction(durable=True):
            # Read under the write lock, so that two requests cannot both take the last of the budget.
            room = remaining(account)
            # Not even an empty budget would have room for it.
            most_usd, cost_usd = account.largest_usd, estimate.cost_usd
            if most_usd is not None and cost_usd is not None and cost_usd > most_usd + ROUNDING_USD:
                most = f"{account.name} of {format_usd(most_usd)}"
                what = f"one request would cost about {format_usd(cost_usd)}, more than {most}"
                raise BudgetExceeded(what, account.fix(BudgetUse(limits=account.limits)))
            account.reservations.ask(reservation)
            admitted = account.reservations.hold(reservation, room)
        if not admitted:
            await self._wait_until_granted(reservation)
        return reservation.id

    def left_for(self, reservation: ReservationId) -> Amount:
        """Return what is left for the request besides what others have reserved; never less than nothing."""
        use = BudgetUse(limits=self._account.limits, totals=self._account.totals())
        held = self._account.reservations.held(self._account.id, but=reservation)
        return Amount(max(0.0, use.left.usd - held.usd), max(0, use.left.tokens - held.tokens))

    def set_tries(self, reservation: ReservationId, tries: int, estimate: Usage | None = None) -> None:
        """Store how many tries may have been billed, and of which size: what is booked if this process is killed."""
        with self._account.transaction():
            self._account.reservations.set_tries(reservation, tries, estimate)

    def settle(self, reservation: ReservationId, usage: Usage) -> None:
        """Book the actual usage and release the reservation; safe to repeat."""
        # The request has been billed, so a power cut must not lose its cost.
        with self._account.transaction(durable=True):
            # None: the reservation was settled before, by this caller or by a process that took this one for dead.
            if (settled := self._account.reservations.free(reservation)) is not None:
                _book_usage(self._account, settled, usage)

    async def _wait_until_granted(self, reservation: Reservation) -> None:
        """Return once the reservation is granted; on cancellation or an exceeded budget, leave the queue."""
        account, admitted = self._account, False
        try:
            while not admitted:
                await self._clock.sleep((MIN_POLL_MS + random_below(MAX_POLL_MS - MIN_POLL_MS)) / 1000)
                self._settle_dead_owners()
                # First without the lock, which most checks need not take.
                if account.reservations.is_next(reservation, remaining(account)):
                    with account.transaction(durable=True):
                        admitted = account.reservations.hold(reservation, remaining(account))
        finally:
            if not admitted:
                with self._account.transaction():
                    self._account.reservations.free(reservation.id)

    def _settle_dead_owners(self) -> None:
        # They count as spent, since their requests may have been billed.
        if self._clock.monotonic() < self._next_check_s:
            return
        self._next_check_s = self._clock.monotonic() + DEAD_OWNER_CHECK_S
        settle_dead_owners(self._account, but=self._owner)


def remaining(account: BudgetAccount) -> Amount:
    """Return what is left of both limits, infinity without one; raise BudgetExceeded if nothing is left of one."""
    use = BudgetUse(limits=account.limits, totals=account.totals())
    if (reached := use.reached) is not None:
        limit, spent = reached
        raise BudgetExceeded(f"{account.name} of {limit} is used up ({spent})", account.fix(use))
    return use.left


def _book_usage(account: BudgetAccount, settled: Reservation, usage: Usage) -> None:
    """Book the usage of a request, how wrong its estimate was, and the warning that it causes."""
    measured = usage.counted_tokens - usage.estimated_tokens
    error_tokens = abs(measured - settled.estimate.counted_tokens) if measured > 0 else 0
    before = BudgetUse(limits=account.limits, totals=account.totals())
    account.book(settled.payer, settled.spender, usage, error_tokens=error_tokens)
    if warning := reached_warning(before, structs.replace(before, totals=account.totals())):
        account.add_notice(warning)


def settle_dead_owners(account: BudgetAccount, *, but: ProcessIdentity) -> None:
    """Book what granted reservations of a dead process may have used, once, and remove its waiting ones.

    `but` is a process known to be alive: this one.
    """
    # Without the lock: the common case has no dead owner, and `free` returns a reservation to one caller only.
    reservations = account.reservations.for_account(account.id)
    dead = {owner for owner in {each.owner for each in reservations} - {but} if not is_alive(owner)}
    # Most calls end here, without the lock that all writers share.
    if not dead:
        return
    with account.transaction(durable=True):
        for each in reservations:
            lost = account.reservations.free(each.id) if each.owner in dead else None
            # What waited for its endpoint was not sent, and no one has billed it.
            if lost is not None and lost.granted and lost.tries:
                usage = sum((lost.estimate.as_estimate,) * lost.tries, Usage())
                _book_usage(account, lost, structs.replace(usage, requests=1))
                cost = "an unknown cost" if usage.cost_usd is None else format_usd(usage.cost_usd)
                tokens = f" and {usage.counted_tokens:,} tokens" if usage.counted_tokens else ""
                account.add_notice(
                    f"process {lost.owner.pid} died during a request; its reservation, {cost}{tokens}, counts as spent"
                )
