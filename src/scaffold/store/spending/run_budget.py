"""The budget of a run, shared by all of its processes."""

from contextlib import AbstractContextManager

from scaffold.core.events import NoticeRaised
from scaffold.core.ids import AttemptId, ReservationId, RunId, TurnId
from scaffold.core.model import Attempt, PlanningTurn, ProcessIdentity, Usage
from scaffold.core.ports import Clock
from scaffold.store.database import Store
from scaffold.store.spending.budget import SharedBudget


class RunBudgetAccount:
    """A run's account; its attempts and planning turns are the payers. Implements `budget.BudgetAccount`."""

    name = "the budget"
    fix = "Continue with `scaffold resume --budget-usd MORE`."

    def __init__(self, store: Store, run_id: RunId, *, limit_usd: float | None) -> None:
        self.id: str = run_id
        self.limit_usd = limit_usd
        self.largest_usd: float | None = None
        self.reservations = store.reservations
        self._store = store
        self._run_id = run_id

    def transaction(self, *, durable: bool = False) -> AbstractContextManager[None]:
        """Return a block whose changes are committed together."""
        return self._store.transaction(durable=durable)

    def spent_usd(self) -> float:
        """Return the cost of all attempts and turns of the run."""
        return self._store.runs.paid_usd(self._run_id)

    def book(self, payer: str, usage: Usage) -> None:
        """Add the usage to an attempt or turn, even an ended one, since the money is spent."""
        if self._store.attempts.get(AttemptId(payer)) is not None:
            self._store.attempts.account(AttemptId(payer), usage=usage)
        else:
            self._store.turns.account(TurnId(payer), usage=usage)

    def add_notice(self, notice: str) -> None:
        """Append a notice to the run's events."""
        self._store.events.append(self._run_id, NoticeRaised("warning", notice))


class RunBudget:
    """One attempt's or planning turn's share in its run's budget. Implements `core.ports.Budget`.

    Both methods raise StaleFence if the payer has ended or has another fence; usage is booked nevertheless.
    """

    def __init__(
        self,
        store: Store,
        payer: Attempt | PlanningTurn,
        *,
        limit_usd: float | None,
        clock: Clock,
        owner: ProcessIdentity,
    ) -> None:
        account = RunBudgetAccount(store, payer.run_id, limit_usd=limit_usd)
        self._budget = SharedBudget(account, payer=payer.id, clock=clock, owner=owner)
        self._store = store
        self._payer = payer

    async def reserve(self, estimate: Usage) -> ReservationId:
        """Reserve the estimated cost, in queue order; raise BudgetExceeded once the run's limit is used up."""
        self._check()
        return await self._budget.reserve(estimate)

    def settle(self, reservation: ReservationId, usage: Usage) -> None:
        """Book the actual usage on the payer and release the reservation; safe to repeat."""
        self._budget.settle(reservation, usage)
        self._check()

    def _check(self) -> None:
        match self._payer:
            case Attempt(id=attempt_id, fence=fence):
                self._store.attempts.check(attempt_id, fence=fence)
            case PlanningTurn(id=turn_id):
                self._store.turns.check(turn_id)
