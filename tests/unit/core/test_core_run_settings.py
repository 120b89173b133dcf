"""Settings of a run: tiers, models, the list in which tasks are marked."""

import pytest
from inline_snapshot import snapshot
from msgspec import structs

from builders import a_run, make_settings
from scaffold.core.executor_settings import NATIVE, ExecutorSettings
from scaffold.core.run_settings import (
    AssignedModel,
    AssignedModels,
    LandingSettings,
    ModelSettings,
    ReviewerSettings,
    Tier,
    TierChoice,
    WriteBack,
    task_kind,
)


def test_an_attempts_time_is_set_in_minutes_and_used_in_seconds():
    assert Tier(name="mine", timeout_min=5).timeout_s == 300


def test_how_a_tier_was_chosen_is_said_only_if_the_user_did_not_choose_it():
    """AL-2."""
    chosen = TierChoice(confidence=0.95, found_words=("typo",), reason="the request has `typo`")
    assert chosen.text("quick") == snapshot(
        "tier quick: the request has `typo` (confidence 0.95); `--tier` chooses another"
    )
    assert TierChoice().text("quick") == ""


def test_a_run_has_as_many_agents_as_advised_and_at_most_those_of_its_tier():
    """BX-18: a number that was given is obeyed."""
    rows = ((None, False, 3), (2, False, 2), (9, False, 3), (2, True, 3))
    for advised, fixed, agents in rows:
        settings = make_settings(agents=3, fixed_agents=fixed)
        assert structs.replace(a_run("a"), settings=settings, advised_agents=advised).agents == agents


def test_the_kind_of_a_task_follows_from_its_role_and_its_type():
    """AL-2."""
    kinds = {
        ("implementation", "SETUP"): "boilerplate",
        ("implementation", "FEATURE"): "feature",
        ("implementation", "BUGFIX"): "feature",
        ("implementation", "REFACTOR"): "architecture",
        ("implementation", None): None,
        ("code_review", None): "review",
        ("architecture_review", "REFACTOR"): "review",
        ("reviewer", None): "review",
        ("architecture", None): "architecture",
        ("testing", None): None,
    }
    assert {row: task_kind(*row) for row in kinds} == kinds


def test_an_action_has_the_model_of_its_role_then_of_its_kind_then_of_all_work():
    """AL-2."""
    by_role = {each: AssignedModel(name=each) for each in ("testing", "worker", "planner")}
    assigned = AssignedModels(by_role=by_role, by_task={"boilerplate": AssignedModel(name="small", effort="low")})
    settings = structs.replace(make_settings(), assigned=assigned)
    actions = (("testing", "SETUP"), ("implementation", "SETUP"), ("implementation", "FEATURE"))
    assert [settings.worker_model(*each).name for each in actions] == ["testing", "small", "worker"]
    assert (settings.agent_model("planner").name, settings.agent_model("critic")) == ("planner", settings.model)
    assert settings.worker_model("implementation", "SETUP").effort_of("worker") == "low"
    assert [each.name for each in settings.models] == [settings.model.name, "testing", "worker", "planner", "small"]


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


def test_a_human_reviews_changes_where_the_tier_or_the_user_says_so():
    """AL-22."""
    asked = {
        ("architect", "tier"): True,
        ("builder", "tier"): False,
        ("architect", "never"): False,
        ("quick", "always"): True,
    }
    assert {row: make_settings(tier=row[0], human_review=row[1]).human_reviews for row in asked} == asked


def test_an_attempt_that_takes_another_approach_may_have_another_model():
    """AL-19: if one is configured."""
    settings = make_settings()
    assert settings.worker_model("", None, alternative=True) == settings.model
    settings = make_settings(other_model=ModelSettings(name="larger"))
    assert settings.worker_model("", None, alternative=True).name == "larger"
    assert settings.worker_model("", None, alternative=False) == settings.model
    assert [each.name for each in settings.models] == [settings.model.name, "larger"]


def test_the_role_decides_who_works_before_the_tier_and_the_tier_before_the_default():
    """AL-20"""
    settings = ExecutorSettings(default="claude", roles={"code_review": "codex"}, tiers={"quick": "native"})

    assert settings.chosen("code_review", "quick") == "codex"
    assert settings.chosen("implementation", "quick") == NATIVE
    assert settings.chosen("implementation", "builder") == "claude"


def test_a_program_takes_the_turns_of_the_roles_that_it_is_chosen_for():
    """AL-20: by role, else by tier, else by default; its name stands for the model that it chooses itself."""
    executors = ExecutorSettings(default="claude", roles={"planner": "codex", "critic": NATIVE})
    settings = structs.replace(make_settings(), executors=executors)
    assert [settings.agent_executor(role) for role in ("planner", "critic", "drafter")] == ["codex", NATIVE, "claude"]
    assert settings.agent_model("planner").name == "executor:codex"
    assert settings.agent_model("critic") == settings.model
    settings = make_settings(default=NATIVE, tiers={"builder": "codex"})
    assert settings.agent_executor("planner") == "codex"


def test_the_plan_decides_who_works_on_an_action_then_its_role_then_all_work():
    """AL-20"""
    executors = ExecutorSettings(default="pi", roles={"code_review": "codex", "worker": "claude"})
    settings = structs.replace(make_settings(), executors=executors)
    assert settings.worker_executor("code_review", "gemini") == "gemini"
    assert settings.worker_executor("code_review") == "codex"
    assert settings.worker_executor("implementation") == "claude"
    assert make_settings(default="pi").worker_executor("implementation") == "pi"


def test_the_second_reviewers_model_is_its_own():
    """AL-13"""
    own = ReviewerSettings(model=ModelSettings(name="other"))
    settings = make_settings(reviewer=own)
    assert settings.agent_model("reviewer") == own.model
    assert make_settings(reviewer=own, default="claude").agent_model("reviewer").name == "executor:claude"


@pytest.mark.parametrize(
    ("executors", "needed"),
    [
        (ExecutorSettings(), True),
        (ExecutorSettings(default="claude"), False),
        (ExecutorSettings(default="claude", roles={"critic": NATIVE}), True),
        (ExecutorSettings(roles={"critic": "claude"}), True),
        (ExecutorSettings(tiers={"builder": "claude"}), False),
        (ExecutorSettings(default="claude", tiers={"builder": NATIVE}), True),
    ],
)
def test_a_run_needs_a_model_if_any_agent_of_it_is_ours(executors, needed):
    """AL-20: without one, nothing asks for a key."""
    assert executors.needs_model("builder") is needed
