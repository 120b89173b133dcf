"""The settings for proof that a run stores."""

import math
from pathlib import Path

import msgspec
import pytest
from inline_snapshot import snapshot
from msgspec import structs

from builders import make_settings, with_settings
from scaffold.config.run.effective_settings import chosen_models, failure_settings, gate_settings, with_gates, with_tier
from scaffold.config.schema.table import SETTINGS
from scaffold.config.settings import Settings, default_values
from scaffold.config.settings_file import SettingValue, parse_settings
from scaffold.core.errors import UsageError
from scaffold.core.proof.gates import TaggedTests
from scaffold.core.run_settings import BUILDER
from scaffold.llm.model_factory import small_window
from scaffold.policy.trust_decision import INCLUDE_FILE, FolderConfig, TrustFile, TrustStatus
from support.errors import error_of

TAGS = SETTINGS["quality_gates.tags"].parse


@pytest.fixture
def keys(monkeypatch):
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "x")


def with_user(**own):
    """Return the built-in settings with some of the user's."""
    return Settings(default_values() | {name.replace("__", "."): SettingValue(own[name], "user") for name in own})


def test_each_line_of_tags_is_a_path_and_its_tags():
    """AL-11: from the setting to what a run is stored with."""
    tags = TAGS([" src/auth  @auth @log-in ", "**/*.sql @db", "src/auth @auth @log-in"])
    found = gate_settings(with_user(quality_gates__tags=tags)).tagged
    assert found == (TaggedTests(path="src/auth", tags=("auth", "log-in")), TaggedTests(path="**/*.sql", tags=("db",)))


def test_an_invalid_tags_line_is_refused_with_an_example():
    """AL-11: the error says what a line looks like."""
    lines = ["", "src", "@auth", "src auth", "/etc @x", "../x @y", "src @", "src @a b", "a @b\0"]
    refused = [str(error_of(ValueError, TAGS, [line])) for line in lines]
    assert [line for line, said in zip(lines, refused, strict=True) if "`src/auth @auth`" not in said] == []


def test_tags_are_a_list():
    with pytest.raises(ValueError, match="a list of paths"):
        TAGS("src/auth @auth")
    with pytest.raises(ValueError, match="such as `off` in quotes"):
        TAGS([False])


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


def test_another_tier_changes_the_threshold_of_a_resumed_run():
    """AL-5: `resume --tier` overrides all settings of the tier, its critic too; a run without a planner has none."""
    rows = [
        ("architect", True, (True, True, 8)),
        ("quick", True, (False, False, 0)),
        ("architect", False, (False, False, 8)),
    ]
    for tier, planner, wanted in rows:
        settings = with_user(tier=tier)
        found = with_tier(make_settings(planner=planner), settings)
        planning = found.planning
        assert (found.tier.name, (planning.drafter, planning.critic, found.tier.threshold)) == (tier, wanted)
        assert found.tier == settings.tier()


def test_the_second_reviewer_is_another_configured_model_that_may_see_the_code(keys):
    """AL-23: another size, but of the provider the run uses anyway, unless the user names one."""
    rows = [
        ({}, "anthropic:claude-sonnet-4-5"),
        ({"models__large": "anthropic:claude-opus-4-1"}, "anthropic:claude-opus-4-1"),
        ({"models__large": "anthropic:claude-sonnet-4-5", "models__small": "anthropic:x"}, "anthropic:x"),
        ({"models__large": "openai:gpt-5"}, "anthropic:claude-sonnet-4-5"),
        ({"models__large": "openai:gpt-5", "reviewer__model": "large"}, "openai:gpt-5"),
        ({"reviewer__model": "openai:gpt-5"}, "openai:gpt-5"),
        ({"reviewer__model": "off"}, None),
        ({"tier": "scout"}, None),
        ({"tier": "quick"}, None),
        ({"tier": "architect"}, "anthropic:claude-sonnet-4-5"),
    ]
    run = make_settings(model="anthropic:claude-sonnet-4-5", planner=True)
    reviewers = [(own, with_tier(run, with_user(**own)).planning.reviewer) for own, _ in rows]
    assert [(own, reviewer and reviewer.model.name) for own, reviewer in reviewers] == rows


def test_attempts_with_another_approach_have_another_model_only_if_one_is_named(keys):
    """AL-19: the user pays for it."""
    rows = [
        ({}, None),
        ({"models__large": "anthropic:claude-opus-4-1"}, None),
        ({"models__large": "anthropic:claude-opus-4-1", "other_approach__model": "large"}, "anthropic:claude-opus-4-1"),
        ({"models__large": "anthropic:claude-opus-4-1", "other_approach__model": "auto"}, "anthropic:claude-opus-4-1"),
        ({"other_approach__model": "openai:gpt-5"}, "openai:gpt-5"),
        ({"other_approach__model": "off"}, None),
    ]
    run = make_settings(model="anthropic:claude-sonnet-4-5")
    found = [(own, failure_settings(with_user(**own), run.model)) for own, _ in rows]
    assert [(own, each.other_model and each.other_model.name) for own, each in found] == rows
    assert {each.soft_timeout for _, each in found} == {0.8}


def test_a_recorded_run_is_reviewed_by_its_cassette_and_a_run_without_planner_by_nobody():
    """AL-23: whatever models are configured, a plan that is run as it is makes requests for its actions only."""
    assert with_tier(make_settings(planner=False), with_user(tier="architect")).planning.reviewer is None
    settings = with_user(reviewer__share=0.25)
    assert with_tier(make_settings(planner=True), settings).planning.reviewer.share == 0.25
    run = make_settings(planner=True)
    reviewer = with_tier(run, with_user(models__large="anthropic:claude-opus-4-1")).planning.reviewer
    assert reviewer.model == run.model


def test_a_second_reviewer_of_an_unset_size_is_an_error_that_says_how_to_set_it():
    """AL-23."""
    with pytest.raises(UsageError) as caught:
        with_tier(make_settings(planner=True), with_user(reviewer__model="large"))
    assert (caught.value.what, caught.value.fix) == snapshot(
        (
            "the model is `large`, and no model is configured for that size",
            "Set one with `scaffold config models.large MODEL`.",
        )
    )


def test_a_share_is_a_number_from_0_to_1():
    """AL-23."""
    values = [-0.1, 1.1, True, "all"]
    assert [value for value in values if not error_of(ValueError, SETTINGS["reviewer.share"].parse, value)] == []


def test_the_effort_is_that_of_the_flag_or_the_role_or_the_size_or_all(keys):
    """RA-2: thinking is on by default."""
    rows = [
        ({}, {}, {"worker": "auto", "planner": "auto", "critic": "auto"}),
        ({"effort": "high"}, {}, {"worker": "high", "planner": "high"}),
        ({"effort": "high", "efforts__small": "off"}, {}, {"worker": "off", "planner": "off"}),
        ({"efforts__large": "off"}, {}, {"worker": "auto"}),
        ({"efforts__small": "off", "efforts__planner": "high"}, {}, {"worker": "off", "planner": "high"}),
        ({"efforts__small": "off", "efforts__planner": "high"}, {"effort": "low"}, {"worker": "low", "planner": "low"}),
    ]
    for own, flags, expected in rows:
        given = {"model": "small", "models__small": ("anthropic:claude-sonnet-4-5",), **own}
        values = with_user(**given).values | {name: SettingValue(each, f"--{name}") for name, each in flags.items()}
        model = chosen_models(Settings(values), BUILDER, None, notice=print).model
        assert {role: model.effort_of(role) for role in expected} == expected, (own, flags)


def test_the_second_reviewer_thinks_as_much_as_its_own_size_says(keys):
    """RA-2."""
    run = make_settings(model="anthropic:claude-sonnet-4-5", planner=True)
    own = {"models__large": ("anthropic:claude-opus-4-5",), "efforts__large": "high", "effort": "low"}
    assert with_tier(run, with_user(**own)).planning.reviewer.model.effort_of("reviewer") == "high"
    own["efforts__reviewer"] = "off"
    assert with_tier(run, with_user(**own)).planning.reviewer.model.effort_of("reviewer") == "off"


def test_no_effort_is_written_off_in_yaml():
    """RA-2: YAML reads a plain `off` as False."""
    assert SETTINGS["effort"].parse(False) == "off"


def test_a_profile_is_set_for_a_size_a_role_or_the_name_of_a_model(tmp_path):
    """BX-30: a name may have dots and colons; those of sizes and roles are of their models."""
    text = """
    models:
      small: local:tiny@http://h:1/v1
      small.profile: full
      worker: [small, "openai:gpt-5"]
      worker.profile: small
      qwen2.5-coder:7b: {profile: auto}
      medium: {profile: small}
    """
    values = with_user().values | parse_settings(text, tmp_path / "config.yaml")
    profiles = Settings(values).profiles()
    assert profiles["qwen2.5-coder:7b"] == "auto"
    assert profiles["openai:gpt-5"] == "small"
    assert set(profiles) == {"qwen2.5-coder:7b", "openai:gpt-5", "local:tiny@http://h:1/v1"}
    rows = [("local:tiny@http://h:1/v1", {}, 32_768), ("openai:gpt-5", {}, 0), ("openai:gpt-5", profiles, math.inf)]
    rows += [("local:q@http://h:1/v1", {"q": "full"}, 0), ("cassette:c.yaml", {"cassette:c.yaml": "small"}, math.inf)]
    assert [small_window(model, given) for model, given, _ in rows] == [window for *_, window in rows]
    with pytest.raises(UsageError, match=r"config.yaml:1: there is no setting `models.smal`"):
        parse_settings("models.smal: local:tiny@http://h:1/v1", tmp_path / "config.yaml")


def test_a_configured_window_goes_with_the_run_and_its_reviewer(keys):
    """RA-10: by the model's name or its whole model string."""
    entries = SETTINGS["windows"].parse(["qwen3  32768 ", "local:q@http://h:1/v1 8000"])
    windows = {"qwen3": 32768, "local:q@http://h:1/v1": 8000}
    settings = with_user(model="anthropic:claude-sonnet-4-5", windows=entries)
    model = chosen_models(settings, BUILDER, None, notice=print).model
    assert model.windows == windows
    run = msgspec.structs.replace(make_settings(planner=True), model=model)
    own = with_user(windows=entries, models__large=("anthropic:claude-opus-4-5",))
    assert with_tier(run, own).planning.reviewer.model.windows == windows


def test_an_invalid_window_is_refused_with_an_example():
    entries = ["qwen3", "32768", "qwen3 many", "qwen3 999", "qwen3 -1", "two words 32768", ""]
    refused = [str(error_of(ValueError, SETTINGS["windows"].parse, [entry])) for entry in entries]
    assert [entry for entry, said in zip(entries, refused, strict=True) if "`qwen3 32768`" not in said] == []
