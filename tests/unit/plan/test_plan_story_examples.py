"""The examples of the specification of stories: each operation is accepted, and does what it is an example of."""

import json

from scaffold.plan.story.apply_edit import EditsApplied, apply_file
from scaffold.plan.story.record import default_workflow, log_line, step_entry
from scaffold.plan.story.step_edit import read_edits
from support.stories import NOON, claimed, ids, new, op, request, working_on

ADD_AFTER = op(
    "add_after",
    "step-007",
    reason="2 tests failed — need fix cycle before review",
    new_steps=[
        new("coding", "Fix transition validation and auth check"),
        new("linting", "Re-lint after fixes"),
        new("initial_testing", "Re-run tests after fixes"),
    ],
)
SPLIT = op(
    "split",
    "step-005",
    reason="Story requires both model changes and migration — split into two focused steps",
    replacement_steps=[
        new("coding", "Add model changes and migration"),
        new("coding", "Add API endpoint and serializer"),
    ],
)
SKIP = op("skip", "step-009", reason="Only 2 tests added, no redundancy to prune")
ORDER = ["step-005", "step-004", "step-006", "step-007", "step-008", "step-009", "step-010"]
REORDER = op("reorder", reason="Need to write tests before production code (TDD approach)", new_order=ORDER)
RESTART = op(
    "restart",
    "step-005",
    reason="Went down the wrong path — tried to modify the serializer instead of the model",
    new_description="Implement status field by adding column to Profile model and generating migration",
)
EDIT_DESCRIPTION = op(
    "edit_description",
    "step-007",
    reason="Need to also test the migration rollback",
    new_description="Run tests for status field including migration rollback test",
)
DESCRIPTIONS = {
    "context_gathering": "Explore codebase, DB schema, docs, and related code",
    "planning": "Produce implementation plan based on gathered context",
    "architecture": "Design code structure and identify files to modify",
    "test_architecture": "Design test strategy and identify test files",
    "coding": "Implement the changes",
    "linting": "Run formatters and lint checks",
    "initial_testing": "Run tests and identify failures",
    "review": "Self-review against acceptance criteria",
    "prune_tests": "Remove redundant tests",
    "final_review": "Final verification and commit",
}


def after(operation, step_id):
    """Return the story in which the agent of a step asked for this operation, without an array around it."""
    text = json.dumps(operation, ensure_ascii=False)
    alone, listed = read_edits(text.encode(), name="e.json"), read_edits(f"[{text}]".encode(), name="e.json")
    assert [each.operation for each in alone] == [each.operation for each in listed]
    outcome = apply_file(working_on(step_id), request(step_id), text.encode())
    assert isinstance(outcome, EditsApplied), outcome
    return outcome.story


def test_a_claimed_story_has_the_default_workflow():
    """DR-3."""
    workflow = default_workflow()
    assert {step.type: step.description for step in workflow} == DESCRIPTIONS
    assert [step.id for step in workflow] == [f"step-{number:03}" for number in range(1, 11)]
    assert [step.type for step in workflow] == list(DESCRIPTIONS)
    assert {step.status for step in workflow} == {"pending"}
    assert claimed().steps == workflow


def test_a_line_of_the_log_has_the_fields_of_the_example():
    """DR-15."""
    line = json.loads(log_line("US-001", step_entry(claimed(), "step-001", "step_started", NOON)))
    expected = {"agent_id": 7, "story_id": "US-001", "step_id": "step-001", "event": "step_started"}
    assert line == expected | {"ts": "2026-01-01T12:00:00Z"}


def test_steps_are_added_after_a_step():
    """DR-5."""
    story = after(ADD_AFTER, "step-007")
    assert ids(story) == ["001", "002", "003", "004", "005", "006", "007", "011", "012", "013", "008", "009", "010"]
    assert [step.type for step in story.steps[7:10]] == ["coding", "linting", "initial_testing"]
    details = story.history[-1].details
    new_steps = [
        {"id": f"step-{number}"} | each for number, each in zip(ids(story)[7:10], ADD_AFTER["new_steps"], strict=True)
    ]
    assert {key: details[key] for key in ADD_AFTER} == ADD_AFTER | {"new_steps": new_steps}


def test_a_step_is_split():
    """DR-5."""
    story = after(SPLIT, "step-002")
    assert ids(story)[3:7] == ["004", "011", "012", "006"]
    assert story.step("step-012").description == SPLIT["replacement_steps"][1]["description"]


def test_a_pending_step_is_skipped_described_anew_or_moved():
    """DR-5."""
    skipped = after(SKIP, "step-008").step("step-009")
    assert (skipped.status, skipped.skip_reason) == ("skipped", SKIP["reason"])
    assert after(EDIT_DESCRIPTION, "step-005").step("step-007").description == EDIT_DESCRIPTION["new_description"]
    assert ids(after(REORDER, "step-003"))[3:] == [each.removeprefix("step-") for each in ORDER]


def test_the_current_step_is_restarted_with_another_description():
    """DR-5."""
    step = after(RESTART, "step-005").step("step-005")
    assert (step.status, step.restart_count, step.description) == ("pending", 1, RESTART["new_description"])
