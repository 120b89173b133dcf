"""The limits of a run's spending, from the configuration and the flags."""

import os

import pytest

from builders import make_settings
from scaffold.config.run.effective_settings import run_limits
from scaffold.config.run.spending_limits import with_default_tokens, with_more, with_tier_tokens
from scaffold.config.settings import load_settings
from scaffold.core.errors import UsageError
from scaffold.core.run_settings import ModelSettings, RunLimits

PRICED = ModelSettings(name="anthropic:claude-sonnet-4-5")
UNPRICED = ModelSettings(name="local:llama@http://127.0.0.1:1/v1")


def limits_of(models=(PRICED,), **flags):
    settings = load_settings(None, os.environ, flags)
    return with_default_tokens(run_limits(settings), settings, settings.tier(), models)


def test_without_a_limit_the_tier_has_one_in_tokens():
    """AL-28: builder may use 100,000 for each action."""
    assert limits_of().action_tokens == 100_000
    assert limits_of(tier="quick").action_tokens == 60_000
    assert limits_of(budget_tokens=5).budget_tokens == 5


def test_a_limit_in_dollars_takes_its_place_only_if_it_can_be_enforced():
    """AL-21: dollars of a model without a price limit nothing."""
    assert limits_of(budget_usd=2.0).action_tokens == 0
    assert limits_of((PRICED, UNPRICED, None), budget_usd=2.0).action_tokens == 100_000
    both = limits_of(budget_usd=2.0, budget_tokens=9)
    assert (both.budget_usd, both.budget_tokens) == (2.0, 9)


def test_a_project_lowers_limits_and_replaces_none(tmp_path, repository):
    """AL-28: many dollars of a project's file would otherwise lift the tier's limit in tokens."""
    (repository / ".scaffold.yaml").write_text(
        "budget_usd: 1000000\nbudget_tokens: 1000000000\ntiers: {builder: {tokens: 5000}}\n"
    )
    settings = load_settings(repository, os.environ, {}, trust_once=True)
    limits = with_default_tokens(run_limits(settings), settings, settings.tier(), (PRICED,))
    assert (limits.budget_usd, limits.budget_tokens, limits.action_tokens) == (1_000_000, None, 5_000)


def test_more_is_given_when_a_run_is_resumed():
    """AL-21: what is not named stays; dollars take the place of the tier's tokens."""
    run = make_settings(model=PRICED.name, action_tokens=100_000, agreed_actions=2)
    assert with_more(run, usd=None, tokens=None) == run.limits
    assert with_more(run, usd=None, tokens=9).budget_tokens == 9
    dollars = with_more(run, usd=3.0, tokens=None)
    assert (dollars.budget_usd, dollars.action_tokens) == (3.0, 0)
    local = make_settings(model=UNPRICED.name, action_tokens=100_000)
    assert with_more(local, usd=3.0, tokens=None).action_tokens == 100_000
    # Another tier brings its limit where one holds.
    architect = load_settings(None, os.environ, {"tier": "architect"}).tier()
    assert with_tier_tokens(RunLimits(action_tokens=1), architect).action_tokens == architect.tokens
    assert with_tier_tokens(RunLimits(), architect).action_tokens == 0


def test_what_is_no_limit_is_refused():
    """AL-21: none, less than none, not a number, and more than can be counted."""
    values = {
        "budget_usd": (0, -1, float("nan"), float("inf"), 10**400, True),
        "budget_tokens": (0, -5, 1.5, True, 10**400),
    }
    for name, value in [(name, value) for name, given in values.items() for value in given]:
        with pytest.raises(UsageError):
            load_settings(None, os.environ, {name: value})
