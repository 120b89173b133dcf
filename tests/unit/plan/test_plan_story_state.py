"""`workflow_state.json`: the specification's example, what is refused, and the projection of records."""

import json

import pytest

from scaffold.core.errors import PlanInvalid
from scaffold.plan.story.workflow_state import encode_state, project, read_state
from support.stories import NOON, claimed, complete, start, working_on

EXAMPLE = """{
  "version": 1,
  "created_at": "2025-01-15T10:00:00Z",
  "prd_file": "prd.json",
  "stories": {
    "US-001": {
      "story_id": "US-001",
      "title": "Add status field to profiles model",
      "status": "completed",
      "agent_id": 1,
      "claimed_at": "2025-01-15T10:05:00Z",
      "completed_at": "2025-01-15T10:45:00Z",
      "depends_on": [],
      "steps": [
        {
          "id": "step-001",
          "type": "context_gathering",
          "status": "completed",
          "description": "Explore codebase and gather context for profiles status field",
          "started_at": "2025-01-15T10:05:30Z",
          "completed_at": "2025-01-15T10:08:00Z",
          "git_sha_at_start": "a1b2c3d",
          "notes": "Found: profiles/models.py (Profile model), profiles/schemas.py, \
test_profiles.py. No existing status field.",
          "error": null,
          "skip_reason": null,
          "restart_count": 0,
          "cost_usd": 0.08,
          "input_tokens": 12000,
          "output_tokens": 2500,
          "log_file": "logs/US-001/step-001.jsonl"
        },
        {
          "id": "step-002",
          "type": "planning",
          "status": "completed",
          "description": "Produce implementation plan for status field",
          "started_at": "2025-01-15T10:08:05Z",
          "completed_at": "2025-01-15T10:11:00Z",
          "git_sha_at_start": "a1b2c3d",
          "notes": "Plan: add ProfileStatus enum and status column to Profile model, create \
migration, update serializer",
          "error": null,
          "skip_reason": null,
          "restart_count": 0,
          "cost_usd": 0.10,
          "input_tokens": 14000,
          "output_tokens": 3000,
          "log_file": "logs/US-001/step-002.jsonl"
        },
        {
          "id": "step-005",
          "type": "coding",
          "status": "completed",
          "description": "Implement status field changes",
          "started_at": "2025-01-15T10:16:05Z",
          "completed_at": "2025-01-15T10:25:00Z",
          "git_sha_at_start": "a1b2c3d",
          "notes": "Added ProfileStatus enum, status column, migration, updated serializer",
          "error": null,
          "skip_reason": null,
          "restart_count": 0,
          "cost_usd": 0.45,
          "input_tokens": 20000,
          "output_tokens": 8000,
          "log_file": "logs/US-001/step-005.jsonl"
        },
        {
          "id": "step-010",
          "type": "final_review",
          "status": "completed",
          "description": "Final verification and commit",
          "started_at": "2025-01-15T10:38:05Z",
          "completed_at": "2025-01-15T10:42:00Z",
          "git_sha_at_start": "f5e6d7c",
          "notes": "All checks pass. Committed as 'feat: add status field to profiles'.",
          "error": null,
          "skip_reason": null,
          "restart_count": 0,
          "cost_usd": 0.15,
          "input_tokens": 18000,
          "output_tokens": 2000,
          "log_file": "logs/US-001/step-010.jsonl"
        }
      ],
      "history": [
        {
          "timestamp": "2025-01-15T10:05:00Z",
          "action": "story_claimed",
          "agent_id": 1,
          "step_id": null,
          "details": {}
        },
        {
          "timestamp": "2025-01-15T10:42:00Z",
          "action": "story_completed",
          "agent_id": 1,
          "step_id": null,
          "details": {}
        }
      ]
    },
    "US-002": {
      "story_id": "US-002",
      "title": "Add profile status API endpoint",
      "status": "in_progress",
      "agent_id": 2,
      "claimed_at": "2025-01-15T10:45:05Z",
      "completed_at": null,
      "depends_on": ["US-001"],
      "steps": [
        {
          "id": "step-007",
          "type": "initial_testing",
          "status": "completed",
          "description": "Run tests for status endpoint",
          "started_at": "2025-01-15T11:06:05Z",
          "completed_at": "2025-01-15T11:12:00Z",
          "git_sha_at_start": "b2c3d4e",
          "notes": "2 of 4 tests failed: test_invalid_transition and test_unauthorized",
          "error": null,
          "skip_reason": null,
          "restart_count": 0,
          "cost_usd": 0.20,
          "input_tokens": 16000,
          "output_tokens": 3000,
          "log_file": "logs/US-002/step-007.jsonl"
        },
        {
          "id": "step-011",
          "type": "coding",
          "status": "completed",
          "description": "Fix failing tests: invalid transition validation and auth check",
          "started_at": "2025-01-15T11:12:10Z",
          "completed_at": "2025-01-15T11:18:00Z",
          "git_sha_at_start": "c3d4e5f",
          "notes": "Fixed transition validation logic and added proper permission check",
          "error": null,
          "skip_reason": null,
          "restart_count": 0,
          "cost_usd": 0.35,
          "input_tokens": 18000,
          "output_tokens": 6000,
          "log_file": "logs/US-002/step-011.jsonl"
        },
        {
          "id": "step-012",
          "type": "linting",
          "status": "completed",
          "description": "Re-run lint after fixes",
          "started_at": "2025-01-15T11:18:05Z",
          "completed_at": "2025-01-15T11:19:00Z",
          "git_sha_at_start": "d4e5f6a",
          "notes": "Clean",
          "error": null,
          "skip_reason": null,
          "restart_count": 0,
          "cost_usd": 0.05,
          "input_tokens": 10000,
          "output_tokens": 500,
          "log_file": "logs/US-002/step-012.jsonl"
        },
        {
          "id": "step-013",
          "type": "initial_testing",
          "status": "in_progress",
          "description": "Re-run tests after fixes",
          "started_at": "2025-01-15T11:19:05Z",
          "completed_at": null,
          "git_sha_at_start": "d4e5f6a",
          "notes": null,
          "error": null,
          "skip_reason": null,
          "restart_count": 0,
          "cost_usd": null,
          "input_tokens": null,
          "output_tokens": null,
          "log_file": "logs/US-002/step-013.jsonl"
        },
        {
          "id": "step-008",
          "type": "review",
          "status": "pending",
          "description": "Self-review against acceptance criteria",
          "started_at": null,
          "completed_at": null,
          "git_sha_at_start": null,
          "notes": null,
          "error": null,
          "skip_reason": null,
          "restart_count": 0,
          "cost_usd": null,
          "input_tokens": null,
          "output_tokens": null,
          "log_file": null
        },
        {
          "id": "step-009",
          "type": "prune_tests",
          "status": "pending",
          "description": "Remove redundant tests",
          "started_at": null,
          "completed_at": null,
          "git_sha_at_start": null,
          "notes": null,
          "error": null,
          "skip_reason": null,
          "restart_count": 0,
          "cost_usd": null,
          "input_tokens": null,
          "output_tokens": null,
          "log_file": null
        },
        {
          "id": "step-010",
          "type": "final_review",
          "status": "pending",
          "description": "Final verification and commit",
          "started_at": null,
          "completed_at": null,
          "git_sha_at_start": null,
          "notes": null,
          "error": null,
          "skip_reason": null,
          "restart_count": 0,
          "cost_usd": null,
          "input_tokens": null,
          "output_tokens": null,
          "log_file": null
        }
      ],
      "history": [
        {
          "timestamp": "2025-01-15T10:45:05Z",
          "action": "story_claimed",
          "agent_id": 2,
          "step_id": null,
          "details": {}
        },
        {
          "timestamp": "2025-01-15T11:12:00Z",
          "action": "workflow_edit",
          "agent_id": 2,
          "step_id": "step-007",
          "details": {
            "operation": "add_after",
            "reason": "2 tests failed — need a coding fix, re-lint, and re-test before review",
            "new_steps": [
              {
                "id": "step-011",
                "type": "coding",
                "description": "Fix failing tests: invalid transition validation and auth check"
              },
              {
                "id": "step-012",
                "type": "linting",
                "description": "Re-run lint after fixes"
              },
              {
                "id": "step-013",
                "type": "initial_testing",
                "description": "Re-run tests after fixes"
              }
            ]
          }
        }
      ]
    }
  }
}
"""
NAME = "workflow_state.json"


def stored(**changes):
    """Return a small state as text, with other values for fields of its document."""
    document = json.loads(encode_state(project([working_on("step-002")], created_at=NOON, prd_file="prd.json")))
    return json.dumps(document | changes)


def with_story(change):
    document = json.loads(stored())
    change(document["stories"]["US-001"])
    return json.dumps(document)


def test_the_example_is_read_and_written_unchanged():
    """DR-8."""
    state = read_state(EXAMPLE, name=NAME).state
    assert [story.status for story in state.stories.values()] == ["completed", "in_progress"]
    assert state.stories["US-002"].current.id == "step-013"
    assert json.loads(encode_state(state)) == json.loads(EXAMPLE)


def test_records_are_projected_with_every_field_of_the_schema():
    """DR-8."""
    record = complete(working_on("step-001", claimed(depends_on=("US-000",))), "step-001", notes="Found: src/a.py")
    document = json.loads(encode_state(project([start(record, "step-002")], created_at=NOON, prd_file="prd.json")))
    assert {key: document[key] for key in ("version", "created_at", "prd_file")} == {
        "version": 1,
        "created_at": "2026-01-01T12:00:00Z",
        "prd_file": "prd.json",
    }
    story = document["stories"]["US-001"]
    steps, history = story.pop("steps"), story.pop("history")
    assert story == {
        "story_id": "US-001",
        "title": "Story US-001",
        "status": "in_progress",
        "agent_id": 7,
        "claimed_at": "2026-01-01T12:00:00Z",
        "completed_at": None,
        "depends_on": ["US-000"],
    }
    assert steps[0] == {
        "id": "step-001",
        "type": "context_gathering",
        "status": "completed",
        "description": "Explore codebase, DB schema, docs, and related code",
        "started_at": "2026-01-01T12:01:00Z",
        "completed_at": "2026-01-01T12:02:00Z",
        "git_sha_at_start": "a" * 40,
        "notes": "Found: src/a.py",
        "error": None,
        "skip_reason": None,
        "restart_count": 0,
        "cost_usd": 0.5,
        "input_tokens": 1000,
        "output_tokens": 100,
        "log_file": "logs/step-001.jsonl",
    }
    assert list(steps[0]) == list(steps[9])
    assert history[0] == {
        "timestamp": "2026-01-01T12:00:00Z",
        "action": "story_claimed",
        "agent_id": 7,
        "step_id": None,
        "details": {},
    }


def test_unknown_fields_are_kept_with_what_they_belong_to():
    """DR-8: also when steps were added before it, and more has happened."""
    document = json.loads(stored(note="ours", stories_by="Ada"))
    story = document["stories"]["US-001"]
    story["points"], story["steps"][1]["mood"], story["history"][0]["host"] = 3, "good", "box"
    document["stories"]["US-009"] = story | {"story_id": "US-009"}
    read = read_state(json.dumps(document), name=NAME)
    assert json.loads(encode_state(read.state, read.given)) == document
    record = complete(read.state.stories["US-001"], "step-002")
    moved = project([record], created_at=NOON, prd_file="prd.json")
    written = json.loads(encode_state(moved, read.given))
    assert (written["note"], list(written["stories"])) == ("ours", ["US-001"])
    assert written["stories"]["US-001"]["points"] == 3
    assert [step.get("mood") for step in written["stories"]["US-001"]["steps"]][:3] == [None, "good", None]
    assert [entry.get("host") for entry in written["stories"]["US-001"]["history"]][:2] == ["box", None]
    assert len(written["stories"]["US-001"]["history"]) == len(story["history"]) + 1


@pytest.mark.parametrize("given", [{"stories": []}, {"stories": {"US-001": {"steps": 3, "history": [4]}}}])
def test_a_document_of_another_shape_has_no_unknown_fields(given):
    """DR-8: agents may write into the file; what is written again is ours."""
    state = project([claimed()], created_at=NOON, prd_file="prd.json")
    assert json.loads(encode_state(state, given)) == json.loads(encode_state(state))


def named(story):
    story["story_id"] = "US-002"


def step_id(index, value):
    def change(story):
        story["steps"][index]["id"] = value

    return change


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"version": 1,\n "created_at"', r"workflow_state.json:2:14: invalid JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "is not a workflow state: Expected `object`"),
        (stored(version=2), "version 2 is not supported"),
        (stored(created_at="2026-01-01T12:00:00"), "timezone"),
        (stored(prd_file="\ud800"), "is not a workflow state"),
        (with_story(lambda story: story.update(status="done")), r"Invalid enum value 'done' - at `\$.stories"),
        (with_story(named), "the story at `US-001` has the id `US-002`"),
        (stored(stories={"../x": json.loads(stored())["stories"]["US-001"]}), "the story id `../x` has a part"),
        (with_story(step_id(0, "step-002")), "`US-001` has two steps `step-002`"),
        (with_story(step_id(0, "step-9/../../x")), "`US-001` has a step `step-9/../../x`"),
        (with_story(lambda story: story["steps"][0].update(restart_count=-1)), "restart_count"),
    ],
)
def test_what_is_no_state_is_refused_with_the_place_and_what_to_do(text, message):
    """DR-8."""
    with pytest.raises(PlanInvalid, match=message) as caught:
        read_state(text, name=NAME)
    assert caught.value.fix
