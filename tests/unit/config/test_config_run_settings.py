"""The settings for proof that a run stores."""

from pathlib import Path

import pytest
from msgspec import structs

from builders import make_settings, with_settings
from scaffold.config.file import SettingValue
from scaffold.config.run_settings import gate_settings, with_gates, with_tier
from scaffold.config.settings import Settings, default_values
from scaffold.config.table import SETTINGS
from scaffold.core.gates import TaggedTests
from scaffold.policy.trust import INCLUDE_FILE, FolderConfig, TrustFile, TrustStatus

TAGS = SETTINGS["quality_gates.tags"].parse


def with_user(**own):
    """Return the built-in settings with some of the user's."""
    return Settings(default_values() | {name.replace("__", "."): SettingValue(own[name], "user") for name in own})


def test_each_line_of_tags_is_a_path_and_its_tags():
    """AL-11: from the setting to what a run is stored with."""
    tags = TAGS([" src/auth  @auth @log-in ", "**/*.sql @db", "src/auth @auth @log-in"])
    found = gate_settings(with_user(quality_gates__tags=tags)).tagged
    assert found == (TaggedTests(path="src/auth", tags=("auth", "log-in")), TaggedTests(path="**/*.sql", tags=("db",)))


@pytest.mark.parametrize("line", ["", "src", "@auth", "src auth", "/etc @x", "../x @y", "src @", "src @a b", "a @b\0"])
def test_an_invalid_tags_line_is_refused_with_an_example(line):
    """AL-11: the error says what a line looks like."""
    with pytest.raises(ValueError, match="such as `src/auth @auth`"):
        TAGS([line])


def test_tags_are_a_list():
    with pytest.raises(ValueError, match="a list of paths"):
        TAGS("src/auth @auth")


def test_a_run_without_a_baseline_continues_with_the_current_configuration():
    """AL-10: `resume`, and `run --yes` with the same input, make the baseline with the corrected setup."""
    settings = with_user(setup=("make deps",))
    began = make_settings()
    trusted = TrustStatus(FolderConfig(Path(), "", (TrustFile(INCLUDE_FILE, b"# mine\n/.env \n"),)), "trusted")
    found = with_gates(began, settings, trusted).environment
    assert (found.setup, found.include) == (("make deps",), ("/.env",))
    once = with_settings(began, trusted=True)
    assert with_gates(once, settings, structs.replace(trusted, state="unknown")) == once, (
        "trusted once only: it keeps what it began with"
    )


@pytest.mark.parametrize(
    ("tier", "planner", "wanted"),
    [("architect", True, (True, True, 8)), ("quick", True, (False, False, 0)), ("architect", False, (False, False, 8))],
)
def test_another_tier_changes_the_threshold_of_a_resumed_run(tier, planner, wanted):
    """AL-5: `resume --tier` overrides all settings of the tier, its critic too; a run without a planner has none."""
    settings = with_user(tier=tier)
    found = with_tier(make_settings(planner=planner), settings)
    assert (found.tier.name, (found.planning.drafter, found.planning.critic, found.tier.threshold)) == (tier, wanted)
    assert found.tier == settings.tier()
