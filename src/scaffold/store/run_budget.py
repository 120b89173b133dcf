"""A run's budget: what every process of the run spends, and sets aside, counts."""

from contextlib import AbstractContextManager

from scaffold.core.events import Noticed
from scaffold.core.ids import AttemptId, ReservationId, RunId
from scaffold.core.model import Attempt, ProcessIdentity, Usage
from scaffold.core.ports import Clock
from scaffold.store.database import Store
from scaffold.store.purse import Purse


class RunAccount:
    """The account of a run: its attempts pay. Implements `purse.Account`."""

    name = "the budget"
    way_on = "Go on with `scaffold resume --budget-usd MORE`."

    def __init__(self, store: Store, run_id: RunId, *, limit_usd: float | None) -> None:
        self.id: str = run_id
        self.limit_usd = limit_usd
        self.reservations = store.reservations
        self._store = store
        self._run_id = run_id

    def transaction(self, *, durable: bool = False) -> AbstractContextManager[None]:
        """Return a block whose changes are committed together."""
        return self._store.transaction(durable=durable)

    def spent_usd(self) -> float:
        """Return what all attempts of the run have spent."""
        return self._store.runs.paid_usd(self._run_id)

    def book(self, payer: str, usage: Usage) -> None:
        """Add what was used to an attempt, even if it is over: the money is gone."""
        self._store.attempts.account(AttemptId(payer), usage=usage)

    def tell(self, notice: str) -> None:
        """Leave an event in the run."""
        self._store.events.append(self._run_id, Noticed("warning", notice))


class RunBudget:
    """What one attempt may spend of its run's budget. Implements `core.ports.Budget`.

    Both methods raise StaleFence once somebody else ended the attempt; what was used is booked all the same.
    """

    def __init__(
        self, store: Store, attempt: Attempt, *, limit_usd: float | None, clock: Clock, owner: ProcessIdentity
    ) -> None:
        account = RunAccount(store, attempt.run_id, limit_usd=limit_usd)
        self._purse = Purse(account, payer=attempt.id, clock=clock, owner=owner)
        self._store = store
        self._attempt = attempt

    async def reserve(self, estimate: Usage) -> ReservationId:
        """Set aside what a request may cost, in turn; raises BudgetSpent once the run's limit is used up."""
        self._check()
        return await self._purse.reserve(estimate)

    def settle(self, reservation: ReservationId, usage: Usage) -> None:
        """Book what the request really used on the attempt, and free what was set aside; safe to repeat."""
        self._purse.settle(reservation, usage)
        self._check()

    def _check(self) -> None:
        self._store.attempts.check(self._attempt.id, fence=self._attempt.fence)
