"""The budget of one `ralph` session, shared by all of its agents."""

from contextlib import AbstractContextManager

from scaffold.core.model import ProcessIdentity, Usage
from scaffold.core.ports import Clock
from scaffold.store.spending.budget import SharedBudget
from scaffold.store.user_store import UserStore


class SessionBudgetAccount:
    """A session's account, which is its own payer. Implements `budget.BudgetAccount`."""

    name = "the session's budget"
    fix = "Continue with `ralph -c --max-budget-usd MORE`."

    def __init__(self, store: UserStore, account: str, *, limit_usd: float) -> None:
        self.id = account
        self.limit_usd: float | None = limit_usd
        # A user who sets a limit of cents must not pay dollars for the first request.
        self.largest_usd: float | None = limit_usd
        self.reservations = store.reservations
        self._store = store

    def transaction(self, *, durable: bool = False) -> AbstractContextManager[None]:
        """Return a block whose changes are committed together."""
        return self._store.transaction(durable=durable)

    def spent_usd(self) -> float:
        """Return the amount the session has spent."""
        return self._store.accounts.spent_usd(self.id)

    def book(self, payer: str, usage: Usage) -> None:
        """Add the cost to the account; an unknown cost counts as 0."""
        self._store.accounts.book(payer, usage.cost_usd or 0.0)

    def add_notice(self, notice: str) -> None:
        """Do nothing: a session has no events, and its account shows the sum."""


def session_budget(
    store: UserStore, account: str, *, limit_usd: float, clock: Clock, owner: ProcessIdentity
) -> SharedBudget:
    """Return the session's budget; each process creates its own object for the same account."""
    return SharedBudget(
        SessionBudgetAccount(store, account, limit_usd=limit_usd), payer=account, clock=clock, owner=owner
    )
