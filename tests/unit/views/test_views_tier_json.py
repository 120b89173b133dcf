"""The JSON of a run's tier, its agents and its models."""

from inline_snapshot import snapshot
from msgspec import structs

from builders import a_run, make_settings
from scaffold.core.run_settings import AssignedModel, AssignedModels, TierChoice
from scaffold.views.run_json import tier_json

ADVICE = "no two actions can run in parallel"


def test_it_says_what_was_chosen_and_why():
    """AL-1, AL-2, BX-18."""
    settings = structs.replace(
        make_settings(),
        choice=TierChoice(confidence=0.7, reason="a rename"),
        assigned=AssignedModels(by_role={"planner": AssignedModel(name="openai:p")}),
    )
    assert tier_json(a_run(settings=settings, advised_agents=1, advice=ADVICE)) == snapshot(
        {
            "tier_confidence": 0.7,
            "tier_reason": "a rename",
            "questions": 2,
            "agents": 1,
            "agents_reason": "no two actions can run in parallel",
            "models": {"model": "cassette:/nowhere.yaml", "planner": "openai:p"},
        }
    )


def test_agents_that_were_given_have_no_reason():
    """BX-18."""
    found = tier_json(a_run(settings=make_settings(agents=2), advised_agents=1, advice="unused"))
    assert (found["agents"], found["agents_reason"], found["tier_confidence"]) == (2, None, 1.0)
