"""A run's budget: what every process of the run spends, and sets aside, counts."""

from contextlib import AbstractContextManager

from scaffold.core.events import Noticed
from scaffold.core.ids import AttemptId, ReservationId, RunId, TurnId
from scaffold.core.model import Attempt, ProcessIdentity, Turn, Usage
from scaffold.core.ports import Clock
from scaffold.store.database import Store
from scaffold.store.purse import Purse


class RunAccount:
    """The account of a run: its attempts pay, and the turns of its planners. Implements `purse.Account`."""

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
        """Return what all attempts and turns of the run have spent."""
        return self._store.runs.paid_usd(self._run_id)

    def book(self, payer: str, usage: Usage) -> None:
        """Add what was used to an attempt or a turn, even if it is over: the money is gone."""
        if self._store.attempts.get(AttemptId(payer)) is not None:
            self._store.attempts.account(AttemptId(payer), usage=usage)
        else:
            self._store.turns.account(TurnId(payer), usage=usage)

    def tell(self, notice: str) -> None:
        """Leave an event in the run."""
        self._store.events.append(self._run_id, Noticed("warning", notice))


class RunBudget:
    """What one attempt, or one turn, may spend of its run's budget. Implements `core.ports.Budget`.

    Both methods raise StaleFence once somebody else ended it; what was used is booked all the same.
    """

    def __init__(
        self, store: Store, payer: Attempt | Turn, *, limit_usd: float | None, clock: Clock, owner: ProcessIdentity
    ) -> None:
        account = RunAccount(store, payer.run_id, limit_usd=limit_usd)
        self._purse = Purse(account, payer=payer.id, clock=clock, owner=owner)
        self._store = store
        self._payer = payer

    async def reserve(self, estimate: Usage) -> ReservationId:
        """Set aside what a request may cost, in turn; raises BudgetSpent once the run's limit is used up."""
        self._check()
        return await self._purse.reserve(estimate)

    def settle(self, reservation: ReservationId, usage: Usage) -> None:
        """Book what the request really used on its payer, and free what was set aside; safe to repeat."""
        self._purse.settle(reservation, usage)
        self._check()

    def _check(self) -> None:
        match self._payer:
            case Attempt(id=attempt_id, fence=fence):
                self._store.attempts.check(attempt_id, fence=fence)
            case Turn(id=turn_id):
                self._store.turns.check(turn_id)
