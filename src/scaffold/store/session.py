"""A session's budget: what all agents of one call of `ralph` spend, and set aside, counts."""

from contextlib import AbstractContextManager

from scaffold.core.errors import BudgetSpent
from scaffold.core.model import ProcessIdentity, Usage
from scaffold.core.ports import Clock
from scaffold.store.purse import DUST_USD, Purse
from scaffold.store.user import UserStore


class SessionBooks:
    """The account of a session, which pays for itself. Implements `purse.Books`."""

    def __init__(self, store: UserStore, account: str, *, limit_usd: float) -> None:
        self.account = account
        self.reservations = store.reservations
        self._store = store
        self._limit_usd = limit_usd

    def transaction(self, *, durable: bool = False) -> AbstractContextManager[None]:
        """Return a block whose changes are committed together."""
        return self._store.transaction(durable=durable)

    def room_usd(self) -> float:
        """Return what is not spent of the limit; raises BudgetSpent if that is nothing."""
        spent_usd = self._store.accounts.spent_usd(self.account)
        room_usd = self._limit_usd - spent_usd - DUST_USD
        if room_usd <= 0:
            raise BudgetSpent(
                f"the session's budget of ${self._limit_usd:.2f} is used up (${spent_usd:.2f} spent)",
                "Go on with `ralph -c --max-budget-usd MORE`.",
            )
        return room_usd

    def book(self, payer: str, usage: Usage) -> None:
        """Add what was used to the account; an unknown cost counts as nothing."""
        self._store.accounts.book(payer, usage.cost_usd or 0.0)

    def tell(self, notice: str) -> None:
        """Tell nobody: a session has no events, and its account shows the sum."""


def session_budget(store: UserStore, account: str, *, limit_usd: float, clock: Clock, owner: ProcessIdentity) -> Purse:
    """Return the budget that all agents of a session share; each process makes its own of the same account."""
    books = SessionBooks(store, account, limit_usd=limit_usd)
    return Purse(books, payer=account, clock=clock, owner=owner)
