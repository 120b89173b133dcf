"""A session's budget: what all agents of one call of `ralph` spend, and set aside, counts."""

from contextlib import AbstractContextManager

from scaffold.core.model import ProcessIdentity, Usage
from scaffold.core.ports import Clock
from scaffold.store.purse import Purse
from scaffold.store.user import UserStore


class SessionAccount:
    """The account of a session, which pays for itself. Implements `purse.Account`."""

    name = "the session's budget"
    way_on = "Go on with `ralph -c --max-budget-usd MORE`."

    def __init__(self, store: UserStore, account: str, *, limit_usd: float) -> None:
        self.id = account
        self.limit_usd: float | None = limit_usd
        self.reservations = store.reservations
        self._store = store

    def transaction(self, *, durable: bool = False) -> AbstractContextManager[None]:
        """Return a block whose changes are committed together."""
        return self._store.transaction(durable=durable)

    def spent_usd(self) -> float:
        """Return what the session has spent."""
        return self._store.accounts.spent_usd(self.id)

    def book(self, payer: str, usage: Usage) -> None:
        """Add what was used to the account; an unknown cost counts as nothing."""
        self._store.accounts.book(payer, usage.cost_usd or 0.0)

    def tell(self, notice: str) -> None:
        """Tell nobody: a session has no events, and its account shows the sum."""


def session_budget(store: UserStore, account: str, *, limit_usd: float, clock: Clock, owner: ProcessIdentity) -> Purse:
    """Return the budget that all agents of a session share; each process makes its own of the same account."""
    return Purse(SessionAccount(store, account, limit_usd=limit_usd), payer=account, clock=clock, owner=owner)
