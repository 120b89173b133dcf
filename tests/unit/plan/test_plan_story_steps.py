"""Types of steps, their default workflow, and the step that resolves a conflict."""

import pytest
from inline_snapshot import snapshot
from msgspec.structs import replace

from scaffold.core.errors import IllegalTransition, UsageError
from scaffold.core.model import Usage
from scaffold.plan.story.actions import new_record
from scaffold.plan.story.apply_edit import with_rebase_step
from scaffold.plan.story.record import StepRecord, add_usage, default_workflow, next_ids, reset
from scaffold.plan.story.step_type import DEFAULT_WORKFLOW, MANDATORY, STEP_TYPES
from support.stories import USAGE, apply, at, claimed, complete, ids, new, next_step, op, story, working_on

MINUTES = {
    "context_gathering": 15,
    "planning": 10,
    "architecture": 10,
    "test_architecture": 10,
    "coding": 30,
    "linting": 5,
    "initial_testing": 20,
    "review": 10,
    "prune_tests": 10,
    "final_review": 15,
    "rebase_resolve": 20,
}


def a_step(**fields):
    return StepRecord(**({"id": "step-005", "type": "coding", "description": "code"} | fields))


def test_each_type_has_its_timeout_and_its_permission_to_edit():
    """DR-2."""
    assert {kind: definition.timeout_s / 60 for kind, definition in STEP_TYPES.items()} == MINUTES
    fixed = {kind for kind, definition in STEP_TYPES.items() if not definition.may_edit}
    assert fixed == {"context_gathering", "linting", "prune_tests", "rebase_resolve"}
    assert set(DEFAULT_WORKFLOW) == set(STEP_TYPES) - {"rebase_resolve"}
    assert set(DEFAULT_WORKFLOW) > MANDATORY


def test_each_type_has_instructions_for_any_repository_and_language():
    """DR-2: commands come from detection or configuration, and nobody commits but the worker."""
    tools = ("python", "uv run", "pytest", "pre-commit", "npm", "git commit")
    for kind, definition in STEP_TYPES.items():
        for text in (definition.description, definition.receives, definition.produces, definition.done_when):
            assert text, kind
            assert not text.endswith("."), kind
        assert 200 < len(definition.instructions) < 1_500, kind
        assert not [tool for tool in tools if tool in definition.instructions.casefold()], kind


def test_a_reset_forgets_the_execution_and_keeps_what_it_cost():
    """DR-4, DR-8."""
    done = complete(working_on("step-005"), "step-005").step("step-005")
    again = reset(replace(done, error="it broke", restart_count=1))
    costs = {"cost_usd": 0.5, "input_tokens": 1000, "output_tokens": 100}
    assert again == a_step(description=done.description, restart_count=1, **costs)
    assert add_usage(again, USAGE).cost_usd == 1.0
    unknown = add_usage(again, Usage(input_tokens=5, cost_usd=None))
    assert (unknown.cost_usd, unknown.input_tokens) == (None, 1005)


def test_ids_rise_and_are_never_given_twice():
    """DR-3."""
    assert next_ids((), 2) == ("step-001", "step-002")
    assert next_ids(default_workflow(), 2) == ("step-011", "step-012")
    assert next_ids((a_step(id="step-999"), a_step(id="other")), 1) == ("step-1000",)


def test_a_story_is_worked_step_by_step():
    """DR-3."""
    record = new_record(story(depends_on=("US-000",)))
    assert (record.status, record.steps, next_step(record), record.depends_on) == ("unclaimed", (), None, ("US-000",))
    record = working_on("step-009")
    assert record.current.id == "step-009"
    assert next_step(record) is None
    assert next_step(complete(record, "step-009")).id == "step-010"


def test_a_step_that_does_not_exist_is_named_with_those_that_do():
    """DR-3."""
    with pytest.raises(UsageError, match=r"`\.\./x`") as caught:
        claimed().step("../x")
    assert "`step-001`" in caught.value.fix
    with pytest.raises(UsageError) as caught:
        new_record(story()).step("step-001")
    assert caught.value.fix == snapshot("Name one of its steps: none yet.")


def conflicting():
    return complete(working_on("step-010"), "step-010")


def test_a_conflict_is_resolved_in_a_step_of_its_own_before_the_final_review_which_is_repeated():
    """DR-11."""
    record = with_rebase_step(conflicting(), conflict="src/a.py", at=at(8))
    assert ids(record)[-2:] == ["011", "010"]
    resolve, final = record.steps[-2:]
    assert (resolve.type, resolve.status, next_step(record)) == ("rebase_resolve", "pending", resolve)
    assert resolve.description.endswith("since the story began: src/a.py")
    assert (final.status, final.notes, final.cost_usd) == ("pending", None, 0.5)
    details = record.history[-1].details
    assert (details["operation"], details["reason"]) == snapshot(("add_after", "conflicts with what landed: src/a.py"))
    assert [each["id"] for each in details["before"]] == ["step-010"]
    assert [(each["id"], each["status"]) for each in details["after"]] == [
        ("step-011", "pending"),
        ("step-010", "pending"),
    ]


def test_a_conflict_fails_a_story_that_has_30_steps_already():
    """DR-4."""
    record = apply(
        working_on("step-008"), "step-008", op("add_after", "step-008", new_steps=[new("coding")] * 20)
    ).story
    record = complete(working_on("step-010", complete(record, "step-008")), "step-010")
    assert len(record.steps) == 30
    assert with_rebase_step(record, conflict="src/a.py", at=at(8)) is None


def test_a_step_for_conflicts_is_inserted_only_between_two_steps():
    """DR-11."""
    for record in (new_record(story()), working_on("step-004"), replace(claimed(), steps=())):
        with pytest.raises(IllegalTransition):
            with_rebase_step(record, conflict="src/a.py", at=at(8))
