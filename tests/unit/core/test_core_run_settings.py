"""Settings of a run: tiers, models, the list in which tasks are marked."""

from itertools import pairwise

import pytest

from builders import make_settings
from scaffold.core.run_settings import TIERS, LandingSettings, ModelSettings, WriteBack


def test_each_tier_has_at_least_the_effort_of_the_one_before():
    efforts = [(tier.agents, tier.iterations, tier.timeout_s, tier.threshold) for tier in TIERS]
    for lower, higher in pairwise(efforts):
        assert all(less <= more for less, more in zip(lower, higher, strict=True))


def test_an_attempts_time_is_set_in_minutes_and_used_in_seconds():
    assert {tier.name: tier.timeout_s for tier in TIERS} == {
        "quick": 300,
        "scout": 300,
        "builder": 900,
        "architect": 1800,
    }


def test_a_role_without_an_effort_of_its_own_has_that_of_the_model():
    """RA-2."""
    model = ModelSettings(name="m", effort="low", role_efforts={"critic": "off"})
    assert (model.effort_of("critic"), model.effort_of("worker")) == ("off", "low")


def test_only_a_list_of_the_repository_is_marked_by_commits():
    """DR-1."""
    tracked = WriteBack(path="tasks.md", format="kiro", tracked=True)
    assert LandingSettings(write_back=tracked).tracked_list == tracked
    assert LandingSettings(write_back=WriteBack(path="/t", format="kiro", tracked=False)).tracked_list is None
    assert LandingSettings().tracked_list is None


@pytest.mark.parametrize(
    ("tier", "chosen", "asked"),
    [("architect", "tier", True), ("builder", "tier", False), ("architect", "never", False), ("quick", "always", True)],
)
def test_a_human_reviews_changes_where_the_tier_or_the_user_says_so(tier, chosen, asked):
    """AL-22."""
    assert make_settings(tier=tier, human_review=chosen).human_reviews is asked


def test_an_attempt_that_takes_another_approach_may_have_another_model():
    """AL-19: if one is configured."""
    settings = make_settings()
    assert settings.attempt_model(alternative=True) == settings.model
    settings = make_settings(other_model=ModelSettings(name="larger"))
    assert settings.attempt_model(alternative=True).name == "larger"
    assert settings.attempt_model(alternative=False) == settings.model
