"""The run's budget as one attempt sees it: what every process of the run has spent counts."""

from scaffold.core.errors import BudgetSpent
from scaffold.core.model import Attempt, Usage
from scaffold.store.database import Store


class RunBudget:
    """Implements `core.ports.Budget` for an attempt; the money spent is in the store, shared by all workers."""

    def __init__(self, store: Store, attempt: Attempt, *, limit_usd: float | None) -> None:
        self._store = store
        self._attempt = attempt
        self._limit_usd = limit_usd

    def admit(self) -> None:
        """Return while the run has money left; raises BudgetSpent from then on."""
        if self._limit_usd is None:
            return
        spent = self._store.runs.spent(self._attempt.run_id).cost_usd or 0.0
        if spent >= self._limit_usd:
            raise BudgetSpent(
                f"the budget of ${self._limit_usd:.2f} is used up (${spent:.2f} spent)",
                "Go on with `scaffold resume --budget-usd MORE`.",
            )

    def settle(self, usage: Usage) -> None:
        """Book what a request used on the attempt."""
        with self._store.transaction(durable=True):
            self._store.attempts.account(self._attempt.id, fence=self._attempt.fence, usage=usage)
