"""The budget of a run, shared by all of its processes."""

from contextlib import AbstractContextManager

from scaffold.core.errors import ShareUsed
from scaffold.core.events import NoticeRaised
from scaffold.core.ids import ActionId, AttemptId, ReservationId, RunId, TurnId
from scaffold.core.model import Attempt, PlanningTurn, ProcessIdentity, Run, Usage
from scaffold.core.ports import Clock
from scaffold.core.printable_text import format_usd
from scaffold.core.run_settings import RunLimits
from scaffold.core.spending import AccountTotals, Amount, Spender, SpendingLimits
from scaffold.plan.budget import (
    UNPLANNED_ACTIONS,
    BudgetUse,
    action_share,
    format_tokens,
    reserved_for_others,
    spending_limits,
)
from scaffold.store.database import Store
from scaffold.store.spending.shared_budget import SharedBudget


class RunBudgetAccount:
    """A run's account; its attempts and planning turns are the payers. Implements `BudgetAccount`."""

    name = "the budget"

    def __init__(self, store: Store, run_id: RunId, limits: SpendingLimits) -> None:
        self.id: str = run_id
        self.limits = limits
        self.largest_usd: float | None = None
        self.reservations = store.reservations
        self._store = store
        self._run_id = run_id

    def transaction(self, *, durable: bool = False) -> AbstractContextManager[None]:
        """Return a block whose changes are committed together."""
        return self._store.transaction(durable=durable)

    def totals(self) -> AccountTotals:
        """Return what all attempts and turns of the run have used."""
        return self._store.accounts.totals(self.id)

    def book(self, payer: str, spender: Spender, usage: Usage, *, error_tokens: int = 0) -> None:
        """Add the usage to an attempt or turn, even an ended one, since the money is spent."""
        if self._store.attempts.get(AttemptId(payer)) is not None:
            self._store.attempts.account(AttemptId(payer), usage=usage)
        else:
            self._store.turns.account(TurnId(payer), usage=usage)
        self._store.bookings.book(self._run_id, payer, spender, usage)
        self._store.accounts.book(self.id, usage, error_tokens=error_tokens)

    def add_notice(self, notice: str) -> None:
        """Append a notice to the run's events."""
        self._store.events.append(self._run_id, NoticeRaised("warning", notice))

    def fix(self, use: BudgetUse) -> str:
        """Return how the run is continued with more."""
        return more_budget(use)


def budget_use(store: Store, run: Run) -> BudgetUse:
    """Return how much of a run's budget is used."""
    return BudgetUse(
        limits=spending_limits(run.settings.limits),
        totals=store.accounts.totals(run.id),
        reserved=store.reservations.held(run.id),
        is_cost_known=store.runs.spent(run.id).cost_usd is not None,
    )


def more_budget(use: BudgetUse, run_id: str = "") -> str:
    """Return how a run is continued whose budget is used up, as a sentence."""
    named = f" {run_id}" if run_id else ""
    return f"Continue with `scaffold resume{named} {use.more_flag} MORE`."


class RunBudget:
    """One attempt's or planning turn's share in its run's budget. Implements `core.ports.Budget`.

    `reserve` and `settle` raise StaleFence if the payer has ended or has another fence; usage is booked nevertheless.
    """

    def __init__(
        self,
        store: Store,
        payer: Attempt | PlanningTurn,
        spender: Spender,
        *,
        limits: RunLimits,
        clock: Clock,
        owner: ProcessIdentity,
    ) -> None:
        account = RunBudgetAccount(store, payer.run_id, spending_limits(limits))
        self._budget = SharedBudget(account, payer=payer.id, spender=spender, clock=clock, owner=owner)
        self._store = store
        self._payer = payer
        self._account = account
        self._actions = limits.agreed_actions or UNPLANNED_ACTIONS

    async def reserve(self, estimate: Usage) -> ReservationId:
        """Reserve the estimated usage, in queue order; raise BudgetExceeded once a limit of the run is used up.

        Raises ShareUsed if the payer's action has used its share, and the rest is what others have of theirs.
        """
        self._check_payer()
        if isinstance(self._payer, Attempt):
            self._check_share(self._payer)
        return await self._budget.reserve(estimate)

    def left_for(self, reservation: ReservationId) -> Amount:
        """Return what is left for the request besides what others have reserved."""
        return self._budget.left_for(reservation)

    def set_tries(self, reservation: ReservationId, tries: int, estimate: Usage | None = None) -> None:
        """Store how many tries of the request may have been billed, and of which size."""
        self._budget.set_tries(reservation, tries, estimate)

    def settle(self, reservation: ReservationId, usage: Usage) -> None:
        """Book the actual usage on the payer and release the reservation; safe to repeat."""
        self._budget.settle(reservation, usage)
        self._check_payer()

    def _check_share(self, payer: Attempt) -> None:
        store, limits = self._store, self._account.limits
        used = sum((each.usage for each in store.attempts.for_action(payer.action_id)), Usage())
        share = action_share(limits, self._actions)
        # Most requests end here: what others still need is read only for an action that needs more than most.
        if (limits.tokens is None or used.counted_tokens < share.tokens) and (
            limits.usd is None or (used.cost_usd or 0.0) < share.usd
        ):
            return
        totals, by_action = self._account.totals(), dict[ActionId, Amount]()
        for each in store.attempts.for_run(payer.run_id):
            before = by_action.get(each.action_id, Amount())
            usd, tokens = each.usage.cost_usd or 0.0, each.usage.counted_tokens
            by_action[each.action_id] = Amount(before.usd + usd, before.tokens + tokens)
        worked = [*by_action.values()]
        planned = Amount(
            totals.spent.usd - sum(each.usd for each in worked),
            totals.spent.tokens - sum(each.tokens for each in worked),
        )
        actions = store.actions.for_run(payer.run_id)
        mine = next(each for each in actions if each.id == payer.action_id)
        share = action_share(limits, self._actions, planned)
        others = reserved_for_others(share, mine, actions, store.facts.holding(mine.goal_id), by_action)
        left = BudgetUse(limits=limits, totals=totals).left
        if 0 < left.tokens <= others.tokens or 0 < left.usd <= others.usd:
            spent = format_tokens(used.counted_tokens) if others.tokens else format_usd(used.cost_usd or 0.0)
            what = f"its share of the budget is used up ({spent}), and the rest is kept for the other actions"
            raise ShareUsed(
                what, "It goes on once they have ended; raise the limit with `scaffold resume` to do so earlier."
            )

    def _check_payer(self) -> None:
        match self._payer:
            case Attempt(id=attempt_id, fence=fence):
                self._store.attempts.check(attempt_id, fence=fence)
            case PlanningTurn(id=turn_id):
                self._store.turns.check(turn_id)
