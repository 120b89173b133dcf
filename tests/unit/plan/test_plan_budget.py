"""The budget of a run: how many actions count, which limits hold, how much is used and how sure that is."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from msgspec import structs

from builders import an_action
from scaffold.core.plan import ActionSpec
from scaffold.core.run_settings import BUILDER, PlanningSettings, RunLimits
from scaffold.core.spending import UNLIMITED_TOKENS, AccountTotals, Amount, SpendingLimits
from scaffold.core.states import OTHERS_FIRST, Blocked, Completed, Failed, Pending, Running, blocked_on_inbox
from scaffold.plan.budget import (
    COMPOUND_ACTIONS,
    UNKNOWN_ACCURACY,
    BudgetUse,
    action_share,
    agreed_actions,
    format_tokens,
    reached_warning,
    reserved_for_others,
    spending_limits,
)
from scaffold.plan.compliance.rounds import MAX_ROUNDS

PLAIN = PlanningSettings()
PENDING = Pending()


def an_act(key, *, parent=None, kind="primitive"):
    return ActionSpec(key=key, parent=parent, kind=kind, description="", effects=(f"{key}_done",))


NOTHING = Amount()


def use(*, usd=None, tokens=None, spent=NOTHING, estimated=0, error=0):
    totals = AccountTotals(spent=spent, estimated_tokens=estimated, error_tokens=error)
    return BudgetUse(limits=SpendingLimits(usd=usd, tokens=tokens), totals=totals)


def test_a_plan_counts_its_primitives_and_a_bound_for_what_is_not_decomposed():
    """AL-21: a story counts as its steps, as any compound with children does."""
    actions = [
        an_act("story", kind="compound"),
        an_act("step-1", parent="story"),
        an_act("step-2", parent="story"),
        an_act("open", kind="compound"),
        an_act("single"),
    ]
    assert agreed_actions(PLAIN, actions) == 3 + COMPOUND_ACTIONS
    assert agreed_actions(PLAIN, []) == 1


def test_rounds_and_audits_are_what_the_user_agreed_to():
    assert agreed_actions(PlanningSettings(rounds=4), [an_act("round-1")]) == 4
    assert agreed_actions(PlanningSettings(until_complied=True), [an_act("a")]) == 1 + MAX_ROUNDS


def stored(key, *, needs=(), status=PENDING, goal="g", kind="primitive"):
    return structs.replace(
        an_action(key), goal_id=goal, preconditions=needs, effects=(f"{key}_done",), state=status, kind=kind
    )


MINE = stored("mine", status=Running())


@pytest.mark.parametrize(
    ("others", "kept"),
    [
        ([], 0),
        ([stored("a"), stored("b", goal="h")], 2_000),
        ([stored("a", needs=("mine_done",)), stored("b", needs=("a_done",))], 0),
        ([stored("a"), stored("b", needs=("a_done",))], 2_000),
        ([stored("used")], 300),
        ([stored("over"), stored("a", kind="compound"), stored("b", status=Completed())], 0),
        ([stored("a", status=OTHERS_FIRST), stored("b", status=blocked_on_inbox("1"))], 2_000),
        ([stored("a", status=Blocked("dependency_failed:x")), stored("b", status=Failed("it"))], 0),
    ],
)
def test_other_actions_keep_what_is_left_of_a_share_unless_they_need_this_one(others, kept):
    """AL-21: whoever has ended keeps nothing, and nobody can use a share while it waits for this very action."""
    spent = {"run-1/used": Amount(0.25, 700), "run-1/over": Amount(9.0, 9_000)}
    share = Amount(0.0, 1_000)
    assert reserved_for_others(share, MINE, [MINE, *others], frozenset(), spent) == Amount(0.0, kept)


def test_what_is_left_has_no_end_without_a_limit():
    """AL-21: what others reserved, too, is without end then."""
    assert use(tokens=100, spent=Amount(0.5, 30)).left == Amount(math.inf, 70)
    assert use(usd=2.0, spent=Amount(0.5, 30)).left == Amount(pytest.approx(1.5), UNLIMITED_TOKENS)


def test_a_share_is_what_planning_left_by_the_number_of_agreed_actions():
    """AL-21: without a limit there is nothing to share."""
    assert action_share(SpendingLimits(tokens=1_000), 3) == Amount(0.0, 333)
    assert action_share(SpendingLimits(usd=9.0, tokens=1_000), 3, Amount(3.0, 400)) == Amount(2.0, 200)
    assert action_share(SpendingLimits(tokens=10), 3, Amount(3.0, 400)) == Amount(0.0, 0)


def test_the_default_limit_is_the_tiers_for_each_agreed_action_and_a_named_one_replaces_it():
    """AL-28: 100,000 for builder."""
    assert BUILDER.tokens == 100_000
    default = RunLimits(action_tokens=100_000, agreed_actions=3)
    assert spending_limits(default) == SpendingLimits(tokens=300_000)
    assert spending_limits(RunLimits(action_tokens=100_000)) == SpendingLimits(tokens=600_000)
    named = RunLimits(action_tokens=100_000, agreed_actions=3, budget_tokens=7, budget_usd=2.0)
    assert spending_limits(named) == SpendingLimits(usd=2.0, tokens=7)
    assert spending_limits(RunLimits()) == SpendingLimits()


def test_the_nearer_limit_is_shown_and_reached_first():
    both = use(usd=1.0, tokens=1_000, spent=Amount(0.9, 100))
    assert both.share == pytest.approx(0.9)
    assert both.is_low
    assert both.reached is None
    assert both.in_words == snapshot("90% of the budget is used: $0.90 of $1.00 and 100 of 1,000 uncached tokens")
    assert use(usd=1.0, spent=Amount(1.0)).reached == ("$1.00", "$1.00 spent")
    tokens = use(usd=1.0, tokens=1_000, spent=Amount(0.1, 1_200))
    assert tokens.reached == (format_tokens(1_000), "1,200 used")
    assert (tokens.more_flag, tokens.more) == ("--budget-tokens", "--budget-tokens 2400")
    dollars = use(usd=1.0, tokens=1_000, spent=Amount(1.5, 1_200))
    assert (dollars.more_flag, dollars.more) == ("--budget-usd", "--budget-usd 3.00")
    assert use(usd=0.0).share == 1.0
    assert "more than 1000% of" in use(tokens=1, spent=Amount(0.0, 99)).in_words


def test_an_unknown_cost_is_never_shown_as_nothing():
    """AL-21: the price of a local model is unknown, so a limit in dollars says nothing about it."""
    unknown = structs.replace(use(usd=1.0), is_cost_known=False)
    assert unknown.in_words == snapshot("0% of the budget is used: an unknown amount of $1.00")
    partly = structs.replace(use(usd=1.0, spent=Amount(0.4, 9)), is_cost_known=False)
    assert partly.in_words == snapshot("40% of the budget is used: $0.40 and an unknown amount of $1.00")


def test_without_a_limit_nothing_is_reached():
    free = use(spent=Amount(5.0, 10**9))
    assert (free.share, free.is_low, free.reached, free.in_words) == (None, False, None, "")


def test_confidence_is_the_share_that_replies_reported_and_how_good_estimates_are():
    """AL-21: hard tokens from usage, soft ones as far as estimates were right."""
    assert use().confidence == 1.0
    assert use(spent=Amount(0, 1_000), error=900).confidence == 1.0
    assert use(spent=Amount(0, 1_000), estimated=1_000).confidence == UNKNOWN_ACCURACY
    assert use(spent=Amount(0, 1_000), estimated=500, error=100).confidence == pytest.approx(0.9)
    assert use(spent=Amount(0, 1_000), estimated=500, error=10_000).confidence == 0.5


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=40),
    st.integers(1, 100) | st.none(),
    st.integers(1, 100) | st.none(),
)
def test_each_limit_warns_once_on_the_way_to_its_end(steps, cents, tokens):
    """AL-21: at 80%, whichever process books what reaches it."""
    now, warnings = use(usd=None if cents is None else cents / 100, tokens=tokens), []
    for more_cents, more_tokens in steps:
        spent = Amount(now.spent.usd + more_cents / 100, now.spent.tokens + more_tokens)
        before, now = now, BudgetUse(limits=now.limits, totals=AccountTotals(spent=spent))
        warnings.append(reached_warning(before, now))
    said = [text for text in warnings if text]
    assert len(said) <= sum(limit is not None for limit in (cents, tokens))
    assert bool(said) == now.is_low
    assert all("no request starts" in text for text in said)
