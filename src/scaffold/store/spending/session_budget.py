"""The budget of one `ralph` session, shared by all of its agents."""

from contextlib import AbstractContextManager

from scaffold.core.model import ProcessIdentity, Usage
from scaffold.core.ports import Clock
from scaffold.core.spending import AccountTotals, Spender, SpendingLimits
from scaffold.plan.budget import BudgetUse
from scaffold.store.spending.shared_budget import SharedBudget
from scaffold.store.user_store import UserStore


class SessionBudgetAccount:
    """A session's account, which is its own payer. Implements `BudgetAccount`."""

    name = "the session's budget"

    def __init__(self, store: UserStore, account: str, *, limit_usd: float | None) -> None:
        self.id = account
        self.limits = SpendingLimits(usd=limit_usd)
        # A user who sets a limit of cents must not pay dollars for the first request.
        self.largest_usd: float | None = limit_usd
        self.reservations = store.reservations
        self._store = store

    def transaction(self, *, durable: bool = False) -> AbstractContextManager[None]:
        """Return a block whose changes are committed together."""
        # Without a limit a power cut may lose the sum: the conversation has it, too.
        return self._store.transaction(durable=durable and self.limits.usd is not None)

    def totals(self) -> AccountTotals:
        """Return what the session has used."""
        return self._store.accounts.totals(self.id)

    def book(self, payer: str, spender: Spender, usage: Usage, *, error_tokens: int) -> None:  # noqa: ARG002 - the conversation counts by model
        """Add the usage to the account; an unknown cost counts as 0."""
        self._store.accounts.book(payer, usage, error_tokens=error_tokens)

    def add_notice(self, notice: str) -> None:
        """Do nothing: a session has no events, and its account shows the sum."""

    def fix(self, use: BudgetUse) -> str:  # noqa: ARG002 - there is one limit
        """Return how the session is continued with more."""
        return "Continue with `ralph -c --max-budget-usd MORE`."


def session_budget(
    store: UserStore, account: str, *, limit_usd: float | None, model: str = "", clock: Clock, owner: ProcessIdentity
) -> SharedBudget:
    """Return the session's budget; each process creates its own object for the same account."""
    return SharedBudget(
        SessionBudgetAccount(store, account, limit_usd=limit_usd),
        payer=account,
        spender=Spender("agent", model),
        clock=clock,
        owner=owner,
    )
