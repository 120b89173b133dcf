"""Requests that are refused before they cost anything."""

import pytest

from builders import make_settings
from scaffold.core.errors import PlanInvalid
from scaffold.core.plan import Plan
from scaffold.orchestrator.user_control.open_run import input_hash, reject_childless_compounds
from support.harness import act, goal


def test_a_compound_without_children_needs_a_planner():
    with pytest.raises(PlanInvalid, match="`phase`") as caught:
        reject_childless_compounds(Plan(goals=(goal("g", act("phase", kind="compound")),)))
    assert "parent: phase" in caught.value.fix


def test_a_compound_with_children_of_any_role_is_fine():
    """SC-6, SC-7: reviews are actions like others."""
    for role in ("reviewer", "code_review", "anything"):
        phase, step = act("phase", kind="compound"), act("step", parent="phase", role=role)
        assert reject_childless_compounds(Plan(goals=(goal("g", phase, step),))) is None


def test_equal_input_is_the_same_plan_and_model():
    def hashed(text, model, digest=""):
        settings = make_settings(model=model, cassette_hash=digest)
        return input_hash(text, settings)

    assert hashed("plan", "m") == hashed("plan", "m")
    assert len({hashed("plan", "m"), hashed("plan2", "m"), hashed("plan", "m2"), hashed("caf\udce9", "m")}) == 4
    assert hashed("plan", "m", "old cassette") != hashed("plan", "m", "new cassette")
