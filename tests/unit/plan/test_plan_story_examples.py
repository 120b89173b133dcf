"""The JSON of the specification of stories: each example is accepted, and does what it is an example of."""

import json

from inline_snapshot import snapshot

from scaffold.plan.story.apply_edit import EditsApplied, apply_file
from scaffold.plan.story.history import log_line, step_entry
from scaffold.plan.story.record import default_workflow
from scaffold.plan.story.step_edit import read_edits
from support.stories import NOON, claimed, ids, request, working_on

LOG_LINE = """{"ts": "2025-01-15T10:05:00Z", "agent_id": 1, "story_id": "US-001", "step_id": \
"step-001", "event": "step_started"}
"""

ADD_AFTER = """{
  "operation": "add_after",
  "target_step_id": "step-007",
  "reason": "2 tests failed — need fix cycle before review",
  "new_steps": [
    { "type": "coding", "description": "Fix transition validation and auth check" },
    { "type": "linting", "description": "Re-lint after fixes" },
    { "type": "initial_testing", "description": "Re-run tests after fixes" }
  ]
}
"""

SPLIT = """{
  "operation": "split",
  "target_step_id": "step-005",
  "reason": "Story requires both model changes and migration — split into two focused steps",
  "replacement_steps": [
    { "type": "coding", "description": "Add model changes and migration" },
    { "type": "coding", "description": "Add API endpoint and serializer" }
  ]
}
"""

SKIP = """{
  "operation": "skip",
  "target_step_id": "step-009",
  "reason": "Only 2 tests added, no redundancy to prune"
}
"""

REORDER = """{
  "operation": "reorder",
  "reason": "Need to write tests before production code (TDD approach)",
  "new_order": ["step-005", "step-004", "step-006", "step-007", "step-008", "step-009", "step-010"]
}
"""

RESTART = """{
  "operation": "restart",
  "target_step_id": "step-005",
  "reason": "Went down the wrong path — tried to modify the serializer instead of the model",
  "new_description": "Implement status field by adding column to Profile model and generating migration"
}
"""

EDIT_DESCRIPTION = """{
  "operation": "edit_description",
  "target_step_id": "step-007",
  "reason": "Need to also test the migration rollback",
  "new_description": "Run tests for status field including migration rollback test"
}
"""

DEFAULT_WORKFLOW = """[
  { "id": "step-001", "type": "context_gathering",  "status": "pending",
    "description": "Explore codebase, DB schema, docs, and related code" },
  { "id": "step-002", "type": "planning",           "status": "pending",
    "description": "Produce implementation plan based on gathered context" },
  { "id": "step-003", "type": "architecture",       "status": "pending",
    "description": "Design code structure and identify files to modify" },
  { "id": "step-004", "type": "test_architecture",  "status": "pending",
    "description": "Design test strategy and identify test files" },
  { "id": "step-005", "type": "coding",             "status": "pending", "description": "Implement the changes" },
  { "id": "step-006", "type": "linting",            "status": "pending",
    "description": "Run formatters and lint checks" },
  { "id": "step-007", "type": "initial_testing",    "status": "pending",
    "description": "Run tests and identify failures" },
  { "id": "step-008", "type": "review",             "status": "pending",
    "description": "Self-review against acceptance criteria" },
  { "id": "step-009", "type": "prune_tests",        "status": "pending", "description": "Remove redundant tests" },
  { "id": "step-010", "type": "final_review",       "status": "pending",
    "description": "Final verification and commit" }
]
"""


def after(text, step_id):
    """Return the story in which the agent of a step asked for what `text` says."""
    outcome = apply_file(working_on(step_id), request(step_id), text.encode())
    assert isinstance(outcome, EditsApplied), outcome
    return outcome.story


def test_a_claimed_story_has_the_default_workflow():
    """DR-3."""
    shown = [{"id": s.id, "type": s.type, "status": s.status, "description": s.description} for s in default_workflow()]
    assert shown == json.loads(DEFAULT_WORKFLOW)
    assert claimed().steps == default_workflow()


def test_a_line_of_the_log_has_the_fields_of_the_example():
    """DR-15."""
    example = json.loads(LOG_LINE)
    line = json.loads(log_line("US-001", step_entry(claimed(), "step-001", "step_started", NOON)))
    assert line == example | {"ts": "2026-01-01T12:00:00Z", "agent_id": 7}


def test_steps_are_added_after_a_step():
    """DR-5."""
    story = after(ADD_AFTER, "step-007")
    assert ids(story) == ["001", "002", "003", "004", "005", "006", "007", "011", "012", "013", "008", "009", "010"]
    assert [step.type for step in story.steps[7:10]] == ["coding", "linting", "initial_testing"]
    details = story.history[-1].details
    asked = json.loads(ADD_AFTER)
    new_steps = [
        {"id": f"step-{number}"} | each for number, each in zip(ids(story)[7:10], asked["new_steps"], strict=True)
    ]
    assert {key: details[key] for key in asked} == asked | {"new_steps": new_steps}


def test_a_step_is_split():
    """DR-5."""
    story = after(SPLIT, "step-002")
    assert ids(story)[3:7] == ["004", "011", "012", "006"]
    assert story.step("step-012").description == snapshot("Add API endpoint and serializer")


def test_a_step_is_skipped():
    """DR-5."""
    step = after(SKIP, "step-008").step("step-009")
    assert (step.status, step.skip_reason) == snapshot(("skipped", "Only 2 tests added, no redundancy to prune"))


def test_pending_steps_are_reordered():
    """DR-5."""
    assert ids(after(REORDER, "step-003"))[3:] == ["005", "004", "006", "007", "008", "009", "010"]


def test_the_current_step_is_restarted_with_another_description():
    """DR-5."""
    step = after(RESTART, "step-005").step("step-005")
    assert (step.status, step.restart_count) == ("pending", 1)
    assert step.description.startswith("Implement status field by adding column")


def test_a_pending_steps_description_is_changed():
    """DR-5."""
    step = after(EDIT_DESCRIPTION, "step-005").step("step-007")
    assert step.description == snapshot("Run tests for status field including migration rollback test")


def test_an_operation_is_read_alone_and_in_an_array():
    """DR-5."""
    for example in (ADD_AFTER, SPLIT, SKIP, REORDER, RESTART, EDIT_DESCRIPTION):
        alone, listed = read_edits(example.encode(), name="e.json"), read_edits(f"[{example}]".encode(), name="e.json")
        assert [each.operation for each in alone] == [each.operation for each in listed]
