"""What a run keeps of the settings by which work is proven."""

import pytest

from builders import make_settings, with_settings
from scaffold.config.file import SettingValue
from scaffold.config.proof import gate_settings, refresh_gate_settings, with_tier
from scaffold.config.schema import CHECKS, built_in_settings
from scaffold.config.settings import Settings
from scaffold.core.gates import TaggedTests

TAGS = CHECKS["quality_gates.tags"]


def test_each_line_of_tags_is_a_path_and_its_tags():
    """AL-11: from the setting to what a run is stored with."""
    values = built_in_settings() | {
        "quality_gates.tags": TAGS([" src/auth  @auth @log-in ", "**/*.sql @db", "src/auth @auth @log-in"])
    }
    found = gate_settings(Settings({name: SettingValue(value, "user") for name, value in values.items()})).tagged
    assert found == (TaggedTests(path="src/auth", tags=("auth", "log-in")), TaggedTests(path="**/*.sql", tags=("db",)))


@pytest.mark.parametrize("line", ["", "src", "@auth", "src auth", "/etc @x", "../x @y", "src @", "src @a b", "a @b\0"])
def test_a_line_that_is_no_path_with_tags_is_refused_with_an_example(line):
    """AL-11: the error says what a line looks like."""
    with pytest.raises(ValueError, match="such as `src/auth @auth`"):
        TAGS([line])


def test_tags_are_a_list():
    with pytest.raises(ValueError, match="a list of paths"):
        TAGS("src/auth @auth")


def test_a_run_without_a_baseline_goes_on_with_what_is_configured_now():
    """AL-10: `resume`, and `run --yes` with the same input, make the baseline with the set-up as it was mended."""
    settings = Settings(
        {name: SettingValue(value, "user") for name, value in (built_in_settings() | {"setup": ("make deps",)}).items()}
    )
    began = make_settings()
    assert refresh_gate_settings(began, settings, trusted=True).environment.setup == ("make deps",)
    once = with_settings(began, trusted=True)
    assert refresh_gate_settings(once, settings, trusted=False) == once, (
        "trusted once only: it keeps what it began with"
    )


@pytest.mark.parametrize(
    ("tier", "planner", "wanted"),
    [("architect", True, (True, True, 8)), ("quick", True, (False, False, 0)), ("architect", False, (False, False, 8))],
)
def test_another_tier_is_another_threshold_for_a_run_that_goes_on(tier, planner, wanted):
    """AL-5: `resume --tier` overrides all that the tier says, its critic too; a run without a planner has none."""
    settings = Settings(
        {name: SettingValue(value, "user") for name, value in (built_in_settings() | {"tier": tier}).items()}
    )
    found = with_tier(make_settings(planner=planner), settings)
    assert (found.tier.name, (found.planning.drafter, found.planning.critic, found.tier.threshold)) == (tier, wanted)
    assert found.tier == settings.tier()
