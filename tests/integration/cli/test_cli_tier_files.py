"""Tiers of the user's own: files in the configuration folder, and sections of the configuration."""

import os

import pytest
from inline_snapshot import snapshot

from scaffold.config.run.tier_choice import TierQuestion, settings_in_tier
from scaffold.config.settings import load_settings, user_config_file
from scaffold.config.settings_file import SettingValue
from scaffold.core.errors import UsageError
from scaffold.core.run_settings import Tier
from scaffold.plan.analysis.tier_keywords import KEYWORDS

MINE = """\
agents: 4
decompose: on
model: large
task_models: off
iterations: 2
tokens: 5000
timeout_min: 60
threshold: 9
questions: unlimited
review: human
"""


@pytest.fixture
def folder(home):
    path = user_config_file().parent / "tiers"
    path.mkdir(parents=True)
    return path


def chosen(name):
    return load_settings(None, os.environ, {"tier": name}).tier()


def test_a_file_defines_a_tier_and_its_lines_are_the_origins(folder):
    """AL-1: a tier is a file over one schema."""
    (folder / "night.yaml").write_text(f"# while I sleep\n{MINE}")
    assert chosen("night") == Tier(
        name="night",
        agents=4,
        model="large",
        task_models=False,
        iterations=2,
        tokens=5_000,
        timeout_min=60,
        threshold=9,
        questions=None,
        review="human",
    )
    settings = load_settings(None, os.environ, {})
    assert settings.values["tiers.night.agents"] == SettingValue(4, f"{folder}/night.yaml:2")
    assert settings.tiers() == ("quick", "scout", "builder", "architect", "night")
    (folder / "night.yaml").unlink()
    indented = "".join(f"    {line}\n" for line in MINE.splitlines())
    user_config_file().write_text(f"tier: night\ntiers:\n  night:\n{indented}")
    assert load_settings(None, os.environ, {}).tier().agents == 4, "and so does a section of the configuration"


def test_the_configuration_wins_over_the_file_and_a_built_in_tier_may_be_changed_in_part(folder, scaffold):
    """AL-1: built-in tiers can be overridden."""
    (folder / "builder.yaml").write_text("agents: 5\nthreshold: 8\n")
    user_config_file().write_text("tiers: {builder: {agents: 2}}\n")
    assert (chosen("builder").agents, chosen("builder").threshold, chosen("builder").iterations) == (2, 8, 5)
    lines = [" ".join(line.split()) for line in scaffold("config").out.splitlines()]
    assert f"tiers.builder.agents 2 ({user_config_file()}:1)" in lines
    assert f"tiers.builder.threshold 8 ({folder}/builder.yaml:2)" in lines
    assert "tiers.builder.iterations 5 (built-in)" in lines


FAULTS = {
    b"": ("", "`agents`", "`decompose`", "`model`", "`task_models`", "`iterations`", "5 more"),
    b"agents: 4\n": ("", "`decompose`"),
    b"agents: 4\ndecomp": (":2", "YAML"),
    b"agents: 4\ndecompose: on\n": ("", "`model`"),
    b"agents: 4\nagnets: 4\n": (":2", "`tiers.night.agnets`", "`tiers.night.agents`"),
    MINE.replace("4", "0").encode(): (":1", "`tiers.night.agents`", "1 to 20", "0"),
    MINE.replace("4", "-3").encode(): (":1", "1 to 20", "-3"),
    MINE.replace("60", "1e300").encode(): (":7", "10,080", "1e300"),
    MINE.replace("large", "huge").encode(): (":3", "small, medium, large", "huge"),
    f"{MINE}fallback: large\n".encode(): (":11", "`large`"),
    b"agents: [1": (":", "YAML"),
    b"- agents\n": (":1", "`tiers.night`", "key: value"),
    b"\xff\xfe\0": ("", "UTF-8"),
}
"""Faulty files of a tier: the place that is named, and what the error names."""


def refusal():
    """Return what is wrong with the configuration, and how to fix it."""
    with pytest.raises(UsageError) as caught:
        load_settings(None, os.environ, {})
    return caught.value


def test_a_faulty_file_is_reported_with_its_line_and_what_to_do(folder):
    """AL-28: mistakes are reported with file and line."""
    path = folder / "night.yaml"
    wrong = {}
    for text, (place, *named) in FAULTS.items():
        path.write_bytes(text)
        error = refusal()
        said = f"{error.what} {error.fix}"
        if not (error.fix and said.startswith(f"{path}{place}") and all(word in said for word in named)):
            wrong[text] = said
    assert wrong == {}


def test_a_file_that_is_no_file_of_a_tier_is_reported(folder):
    """AL-28: a tier that the user wrote is never left out in silence."""
    for name in ("README.md", ".night.yaml", "night.yaml~"):
        (folder / name).write_text("anything: [")
    (folder / "night.yaml").mkdir()
    assert "night.yaml" in refusal().what
    (folder / "night.yaml").rmdir()
    for name in ("auto.yaml", "night.yml", "night.YAML", "night.toml"):
        (folder / name).write_text(MINE)
        assert name in refusal().what
        (folder / name).unlink()
    assert load_settings(None, os.environ, {}).tiers() == ("quick", "scout", "builder", "architect")


def test_an_unknown_tier_is_answered_with_the_nearest_name_and_not_written(folder, scaffold, repository):
    answer = scaffold("run", "x", "--tier", "bulider", "--dry-run")
    assert answer.code == 64
    assert answer.err.splitlines()[0] == snapshot("error: --tier: there is no tier `bulider`")
    assert "`builder`" in answer.err
    assert scaffold("config", "tier", "bulider").code == 64
    assert scaffold("config", "tiers.builder.fallback", "medium").code == 64
    assert scaffold("config", "tiers.night.agents", "4").code == 64
    assert not user_config_file().exists()


def test_a_project_may_not_define_a_tier_but_lower_one(folder, repository, scaffold):
    """AL-1: a repository may only ask for less effort."""
    (folder / "night.yaml").write_text(MINE)
    (repository / ".scaffold.yaml").write_text(
        "tiers:\n  night: {agents: 2, iterations: 9}\n  theirs: {agents: 20}\n  builder: {review: none, model: large}\n"
    )
    settings = load_settings(repository, os.environ, {"tier": "night"}, trust_once=True)
    assert (settings.tier().agents, settings.tier().iterations) == (2, 2)
    assert {each.setting: each.reason for each in settings.ignored} == snapshot(
        {
            "tiers.night.iterations": "a project cannot raise it beyond 2",
            "tiers.builder.review": "it is `second` already, and a project cannot loosen it",
            "tiers.builder.model": "only your own configuration may set it",
            "tiers.theirs.agents": "only your own configuration may define a tier",
        }
    )


def test_a_project_lowers_the_agents_of_the_tier_that_a_flag_chooses(repository):
    """AL-1: what a project may lower is what the chosen tier says, not the configured one."""
    (repository / ".scaffold.yaml").write_text("tier: architect\nagents: 3\n")
    found = {
        name: load_settings(repository, os.environ, {"tier": name}, trust_once=True).tier()
        for name in ("quick", "scout", "architect")
    }
    assert {name: tier.agents for name, tier in found.items()} == {"quick": 1, "scout": 2, "architect": 3}


def test_a_given_tier_wins_over_all_words(home, tmp_path):
    """AL-2: the user's word counts, whatever the request says, and then it is certain."""
    words = sorted({word for words in KEYWORDS.values() for word in words})
    for tier, has_plan in zip(("quick", "scout", "builder", "architect"), (True, False, True, False), strict=True):
        asked = TierQuestion(texts=words, needs_planner=True, has_plan=has_plan)
        found = settings_in_tier(tmp_path, os.environ, {"tier": tier}, asked, trust_once=False)
        assert (found.settings.tier().name, found.choice.confidence, found.notice) == (tier, 1.0, "")


def test_a_plan_has_the_numbers_of_builder_and_audits_need_a_planner(home, tmp_path):
    """AL-2."""
    asked = {
        "plan": TierQuestion(texts=["typo"], has_plan=True),
        "audit": TierQuestion(texts=["typo"], needs_planner=True),
    }
    found = {name: settings_in_tier(tmp_path, os.environ, {}, each, trust_once=False) for name, each in asked.items()}
    assert {name: each.settings.tier().name for name, each in found.items()} == {"plan": "builder", "audit": "builder"}
    assert found["audit"].notice.startswith("tier builder: `typo` calls for quick, but this needs a planner (")
    user_config_file().parent.mkdir(parents=True)
    user_config_file().write_text("tier: scout\n")
    mine = settings_in_tier(tmp_path, os.environ, {}, asked["plan"], trust_once=False)
    assert (mine.settings.tier().name, mine.choice.confidence) == ("scout", 1.0)
