"""The models of a run: by tier, by role and by the type of a task."""

import pytest
from inline_snapshot import snapshot

from scaffold.config.run.role_models import run_models
from scaffold.config.settings import Settings, default_values
from scaffold.config.settings_file import SettingValue
from scaffold.core.errors import UsageError

SIZES = {"models__small": "anthropic:s", "models__medium": "anthropic:m", "models__large": "anthropic:l"}


@pytest.fixture(autouse=True)
def _keys(monkeypatch):
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "x")


def resolved(*, said=None, **own):
    """Return the models of a run with some settings of the user's."""
    given = {name.replace("__", "."): SettingValue(value, "user") for name, value in own.items()}
    settings = Settings(default_values() | given)
    told = [] if said is None else said
    return run_models(settings, settings.tier(), notice=told.append)


def names(found):
    return {use: each.name.partition(":")[2] for use, each in found.items()}


def test_without_a_model_of_its_own_a_run_has_those_of_its_tier():
    """AL-1, AL-2: sizes by tier and by the type of a task."""
    rows = [
        ("quick", "s", (), {}),
        ("scout", "s", (), {}),
        ("builder", "m", (), {"boilerplate": "s", "feature": "m", "architecture": "l", "review": "m"}),
        ("architect", "l", ("anthropic:m",), {"boilerplate": "s", "feature": "m", "architecture": "l", "review": "m"}),
    ]
    for tier, model, others, tasks in rows:
        found = resolved(tier=tier, **SIZES)
        assert (found.model.name, found.model.others) == (f"anthropic:{model}", others)
        assert names(found.assigned.by_task) == tasks
        assert names(found.assigned.by_role) == ({"critic": "m"} if tier == "architect" else {})
        assert found.assigned.sized


def test_a_model_that_the_user_chose_does_everything_that_no_role_has_a_model_for():
    """AL-2: `--model` is obeyed."""
    found = resolved(model="openai:x", models__planner="large", models__feature="large", **SIZES)
    assert (found.model.name, found.model.others, found.assigned.sized) == ("openai:x", (), False)
    assert (names(found.assigned.by_role), found.assigned.by_task) == ({"planner": "l"}, {})


def test_a_recorded_run_makes_no_live_request(tmp_path):
    """BX-9: a cassette does everything, whatever is configured."""
    (tmp_path / "c.yaml").write_text("version: 1\nreplies: []\n")
    found = resolved(model=f"cassette:{tmp_path}/c.yaml", models__planner="openai:x", **SIZES)
    assert (found.assigned.by_role, found.assigned.by_task) == ({}, {})
    assert found.model.cassette_hash


def test_roles_and_kinds_have_models_and_fallbacks_of_their_own():
    """AL-2: all of it can be overridden."""
    found = resolved(
        models__planner=("large", "openai:p", "medium"),
        models__boilerplate="openai:b",
        models__testing="small",
        efforts__large="high",
        **SIZES,
    )
    planner = found.assigned.by_role["planner"]
    assert (planner.name, planner.others, planner.effort) == ("anthropic:l", ("openai:p", "anthropic:m"), "high")
    assert names(found.assigned.by_role) == {"planner": "l", "testing": "s"}
    assert names(found.assigned.by_task) == {"boilerplate": "b", "feature": "m", "architecture": "l", "review": "m"}


def test_a_model_for_all_work_replaces_what_is_built_in_for_a_kind_of_it():
    found = resolved(models__worker="openai:w", models__boilerplate="small", **SIZES)
    assert (names(found.assigned.by_role), names(found.assigned.by_task)) == ({"worker": "w"}, {"boilerplate": "s"})


def test_a_size_that_is_not_configured_is_replaced_by_the_next_one_which_is_said_once():
    """AL-2."""
    rows = [
        ({"models__large": "anthropic:l"}, "l", ["models.medium and models.small are not set: models.large takes"]),
        ({"models__small": "anthropic:s"}, "s", ["models.medium and models.large are not set: models.small takes"]),
        (
            {"models__small": "anthropic:s", "models__large": "anthropic:l"},
            "l",
            ["models.medium is not set: models.large takes its place"],
        ),
        (SIZES, "m", []),
    ]
    for own, model, said in rows:
        told = []
        assert resolved(said=told, **own).model.name == f"anthropic:{model}"
        assert len(told) == len(said)
        assert all(line.startswith(start) for line, start in zip(told, said, strict=True)), told


def test_without_any_model_the_error_says_how_to_choose_one():
    with pytest.raises(UsageError) as caught:
        resolved()
    assert caught.value.what == snapshot("no model is configured")
    assert "--model anthropic:NAME" in caught.value.fix


def test_a_model_that_falls_back_to_itself_has_no_others():
    found = resolved(
        models__small="anthropic:x", models__medium="anthropic:x", models__large="anthropic:x", tier="architect"
    )
    assert found.model.others == ()
