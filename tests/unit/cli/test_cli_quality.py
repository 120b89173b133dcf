"""What a run keeps of the settings by which work is proven."""

import pytest
from msgspec import structs

from integration.store.nouns import SETTINGS
from scaffold.cli.layer import Value
from scaffold.cli.quality import groundwork, regrounded, tiered
from scaffold.cli.setting import CHECKS, built_in
from scaffold.cli.settings import Settings
from scaffold.core.gates import Tagged

TAGS = CHECKS["quality_gates.tags"]


def test_each_line_of_tags_is_a_path_and_its_tags():
    """AL-11: from the setting to what a run is stored with."""
    values = built_in() | {
        "quality_gates.tags": TAGS([" src/auth  @auth @log-in ", "**/*.sql @db", "src/auth @auth @log-in"])
    }
    found = groundwork(Settings({name: Value(value, "user") for name, value in values.items()}))["tagged"]
    assert found == (Tagged(path="src/auth", tags=("auth", "log-in")), Tagged(path="**/*.sql", tags=("db",)))


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
        {name: Value(value, "user") for name, value in (built_in() | {"setup": ("make deps",)}).items()}
    )
    began = SETTINGS
    assert regrounded(began, settings, trusted=True).setup == ("make deps",)
    once = structs.replace(began, trusted=True)
    assert regrounded(once, settings, trusted=False) == once, "trusted once only: it keeps what it began with"


@pytest.mark.parametrize(
    ("tier", "planner", "wanted"),
    [("architect", True, (True, True, 8)), ("quick", True, (False, False, 0)), ("architect", False, (False, False, 8))],
)
def test_another_tier_is_another_threshold_for_a_run_that_goes_on(tier, planner, wanted):
    """AL-5: `resume --tier` overrides all that the tier says, its critic too; a run without a planner has none."""
    settings = Settings({name: Value(value, "user") for name, value in (built_in() | {"tier": tier}).items()})
    found = structs.replace(SETTINGS, **tiered(settings, planner=planner))
    assert (found.tier, (found.drafter, found.critic, found.threshold)) == (tier, wanted)
    assert found.agents == settings.tier().agents
