"""The budget of a run: what limits it, how much of it is used, and how sure that is."""

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct, structs

from scaffold.core.ids import ActionId, Assertion
from scaffold.core.model import Action
from scaffold.core.plan import ActionSpec
from scaffold.core.printable_text import count_of, format_usd
from scaffold.core.run_settings import PlanningSettings, RunLimits
from scaffold.core.spending import UNLIMITED_TOKENS, AccountTotals, Amount, SpendingLimits
from scaffold.plan.compliance.rounds import MAX_ROUNDS
from scaffold.plan.graph.readiness import action_node, blocked_by_failure
from scaffold.plan.graph.ready_queue import OPEN_STATUSES

COMPOUND_ACTIONS = 6
"""A compound without children counts as this number of actions, however many a model makes of it."""
UNPLANNED_ACTIONS = COMPOUND_ACTIONS
"""A request without a plan is like one compound."""
WARNING_SHARE = 0.8
"""The share of a limit at which the user is warned, once."""
ROUNDING_USD = 1e-9
"""Tolerance for rounding errors of sums in dollars."""
ALIVE = OPEN_STATUSES | {"waiting"}
NOTHING = Amount()
MAX_SHOWN_SHARE = 10.0
UNKNOWN_ACCURACY = 0.5
"""How far estimates are trusted while no reply has said how good they are."""


def agreed_actions(planning: PlanningSettings, actions: Sequence[ActionSpec]) -> int:
    """Return the number of actions that a plan counts as, at least 1: working actions, and possible further rounds."""
    parents = {action.parent for action in actions}
    # A compound without children is broken down later, by a model.
    childless = sum(action.kind == "compound" and action.key not in parents for action in actions)
    counted = sum(action.kind == "primitive" for action in actions) + COMPOUND_ACTIONS * childless
    # The user agreed to so many rounds of the prompt, or audits, each of which is an action.
    audits = MAX_ROUNDS if planning.until_complied else 0
    return max(1, counted) * max(1, planning.rounds) + audits


def spending_limits(limits: RunLimits) -> SpendingLimits:
    """Return the limits of a run, as they are now."""
    tokens = limits.budget_tokens
    if tokens is None:
        # The default follows the plan that the user agreed to; a limit that the user named does not.
        tokens = limits.action_tokens * (limits.agreed_actions or UNPLANNED_ACTIONS) or None
    return SpendingLimits(usd=limits.budget_usd, tokens=tokens)


def format_tokens(tokens: int) -> str:
    """Return a number of tokens in words."""
    return count_of(tokens, "token")


def action_share(limits: SpendingLimits, actions: int, planned: Amount = NOTHING) -> Amount:
    """Return the share of each of so many actions, once `planned` was spent on planning; 0 without a limit."""
    usd, tokens = max(0.0, (limits.usd or 0.0) - planned.usd), max(0, (limits.tokens or 0) - planned.tokens)
    return Amount(usd / actions, tokens // actions)


def reserved_for_others(
    share: Amount,
    mine: Action,
    actions: Sequence[Action],
    facts: frozenset[Assertion],
    spent: Mapping[ActionId, Amount],
) -> Amount:
    """Return what the other open actions of a run have left of a share each, but for those that need `mine`.

    `actions` are all of the run; `facts` hold in the goal of `mine`.
    """
    nodes = [action_node(each) for each in actions if each.goal_id == mine.goal_id]
    without = [structs.replace(each, status="failed") if each.id == mine.id else each for each in nodes]
    needing = blocked_by_failure(without, facts)
    others = (action_node(each) for each in actions if each.id != mine.id and each.id not in needing)
    left = [spent.get(each.id, NOTHING) for each in others if each.kind == "primitive" and each.status in ALIVE]
    return Amount(
        sum(max(0.0, share.usd - used.usd) for used in left), sum(max(0, share.tokens - used.tokens) for used in left)
    )


class BudgetUse(Struct, frozen=True, kw_only=True):
    """How much of a budget is used."""

    limits: SpendingLimits
    totals: AccountTotals = AccountTotals()
    reserved: Amount = Amount()
    """Set aside for requests that are under way."""
    is_cost_known: bool = True
    """Whether the dollars spent are all that was spent; what is unknown counts against no limit in dollars."""

    @property
    def spent(self) -> Amount:
        """The amount spent."""
        return self.totals.spent

    @property
    def left(self) -> Amount:
        """What is left of both limits, infinity without one."""
        usd, tokens = self.limits.usd, self.limits.tokens
        return Amount(
            math.inf if usd is None else usd - self.spent.usd - ROUNDING_USD,
            UNLIMITED_TOKENS if tokens is None else tokens - self.spent.tokens,
        )

    @property
    def share(self) -> float | None:
        """The used share of the limit that is nearer; None without a limit."""
        pairs = ((self.spent.usd, self.limits.usd), (self.spent.tokens, self.limits.tokens))
        # The limit that is reached first stops the run, so the nearer one is shown.
        return max((_used_share(spent, limit) for spent, limit in pairs if limit is not None), default=None)

    @property
    def in_words(self) -> str:
        """The usage of each limit, for people; empty without a limit."""
        if self.share is None:
            return ""
        usd, tokens = self.limits.usd, self.limits.tokens
        parts = [] if usd is None else [f"{self._spent_usd_in_words} of {format_usd(usd)}"]
        parts += [] if tokens is None else [f"{self.spent.tokens:,} of {tokens:,} uncached tokens"]
        share = f"{self.share:.0%}" if self.share < MAX_SHOWN_SHARE else f"more than {MAX_SHOWN_SHARE:.0%}"
        return f"{share} of the budget is used: {' and '.join(parts)}"

    @property
    def _spent_usd_in_words(self) -> str:
        known = format_usd(self.spent.usd)
        if self.is_cost_known:
            return known
        # A price that is unknown must not look like no cost.
        return f"{known} and an unknown amount" if self.spent.usd else "an unknown amount"

    @property
    def consequence(self) -> str:
        """What follows for requests, once it is low."""
        return "at 100% no request starts" if self.reached is None else "no request starts"

    @property
    def is_low(self) -> bool:
        """Whether the user is to be warned."""
        return self.share is not None and self.share >= WARNING_SHARE

    @property
    def reached(self) -> tuple[str, str] | None:
        """The limit that is reached, and what was spent of it, in words; None if none is."""
        usd, tokens = self.limits.usd, self.limits.tokens
        # Sums of many small amounts may end just below the limit.
        if usd is not None and self.spent.usd >= usd - ROUNDING_USD:
            return format_usd(usd), f"{format_usd(self.spent.usd)} spent"
        if tokens is not None and self.spent.tokens >= tokens:
            return format_tokens(tokens), f"{self.spent.tokens:,} used"
        return None

    @property
    def more_flag(self) -> str:
        """The flag of `scaffold resume` that raises the limit that is reached; the other one may be reached as well."""
        usd = self.limits.usd
        return "--budget-tokens" if usd is None or self.spent.usd < usd - ROUNDING_USD else "--budget-usd"

    @property
    def more(self) -> str:
        """The flag with the double of what was spent."""
        if self.more_flag == "--budget-usd":
            # Doubled, so that the run does not stop again after a few requests.
            return f"--budget-usd {max(2 * self.spent.usd, 0.01):.2f}"
        return f"--budget-tokens {max(2 * self.spent.tokens, 1)}"

    @property
    def confidence(self) -> float:
        """How sure the number of tokens is, from 0 to 1.

        Tokens that replies reported are certain; our estimates are trusted as far as they were right where a reply
        could tell.
        """
        # The share of estimates is never above 1, even if they exceed what is booked.
        total = max(self.spent.tokens, self.totals.estimated_tokens)
        if not total:
            return 1.0
        estimated = self.totals.estimated_tokens / total
        measured = total - self.totals.estimated_tokens
        accuracy = max(0.0, 1 - self.totals.error_tokens / measured) if measured else UNKNOWN_ACCURACY
        return round(1 - estimated + estimated * accuracy, 3)


def _used_share(spent: float, limit: float) -> float:
    # A limit of 0 is used up before anything was spent.
    return spent / limit if limit > 0 else 1.0


def reached_warning(before: BudgetUse, after: BudgetUse) -> str:
    """Return the warning about a booking that brings a limit to WARNING_SHARE; empty if it does not.

    Each limit causes it once, however many processes book.
    """
    is_reached = any(
        limit is not None and _used_share(earlier, limit) < WARNING_SHARE <= _used_share(now, limit)
        for earlier, now, limit in (
            (before.spent.usd, after.spent.usd, after.limits.usd),
            (before.spent.tokens, after.spent.tokens, after.limits.tokens),
        )
    )
    return f"{after.in_words}; {after.consequence}" if is_reached else ""
