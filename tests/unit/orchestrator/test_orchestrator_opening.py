"""What is refused before it costs anything."""

import pytest

from fakes import AUTHOR, act, goal
from scaffold.core.errors import PlanInvalid
from scaffold.core.model import RunSettings
from scaffold.core.plan import Plan
from scaffold.orchestrator.opening import input_hash, refuse_what_cannot_run


@pytest.mark.parametrize("role", ["reviewer", "code_review", "pm_review"])
def test_reviews_are_refused_by_name(role):
    with pytest.raises(PlanInvalid, match=f"`look` has the role `{role}`"):
        refuse_what_cannot_run(Plan(goals=(goal("g", act("look", role=role)),)))


def test_a_compound_without_children_needs_a_planner():
    with pytest.raises(PlanInvalid, match="`phase` has no children") as caught:
        refuse_what_cannot_run(Plan(goals=(goal("g", act("phase", kind="compound")),)))
    assert "parent: phase" in caught.value.fix


def test_a_compound_with_children_and_any_other_role_is_fine():
    phase, step = act("phase", kind="compound"), act("step", parent="phase", role="reviewing_nothing")
    assert refuse_what_cannot_run(Plan(goals=(goal("g", phase, step),))) is None


def test_the_same_input_is_the_same_plan_and_the_same_model():
    def hashed(text, model, digest=""):
        settings = RunSettings(repository="/r", model=model, model_hash=digest, author=AUTHOR, committer=AUTHOR)
        return input_hash(text, settings)

    assert hashed("plan", "m") == hashed("plan", "m")
    assert len({hashed("plan", "m"), hashed("plan2", "m"), hashed("plan", "m2"), hashed("caf\udce9", "m")}) == 4
    assert hashed("plan", "m", "cassette as it was") != hashed("plan", "m", "cassette as it is")
