"""`workflow_state.json`: the specification's example, what is refused, and the projection of records."""

import json

import pytest

from scaffold.core.errors import PlanInvalid
from scaffold.plan.story.workflow_state import encode_state, project, read_state
from support.stories import NOON, claimed, complete, start, working_on

UNSET = (
    *("started_at", "completed_at", "git_sha_at_start", "notes", "error", "skip_reason"),
    *("cost_usd", "input_tokens", "output_tokens", "log_file"),
)


def step(number, kind, status, description, **given):
    fields = {"id": f"step-{number}", "type": kind, "status": status, "description": description, "restart_count": 0}
    return fields | dict.fromkeys(UNSET) | given


def entry(at, action, agent, step_id=None, **details):
    return {"timestamp": at, "action": action, "agent_id": agent, "step_id": step_id, "details": details}


GATHERING = step(
    "001",
    "context_gathering",
    "completed",
    "Explore codebase and gather context for profiles status field",
    started_at="2025-01-15T10:05:30Z",
    completed_at="2025-01-15T10:08:00Z",
    git_sha_at_start="a1b2c3d",
    notes="Found: profiles/models.py (Profile model), profiles/schemas.py, test_profiles.py.",
    cost_usd=0.08,
    input_tokens=12000,
    output_tokens=2500,
    log_file="logs/US-001/step-001.jsonl",
)
TESTING = step(
    "013",
    "initial_testing",
    "in_progress",
    "Re-run tests after fixes",
    started_at="2025-01-15T11:19:05Z",
    git_sha_at_start="d4e5f6a",
    log_file="logs/US-002/step-013.jsonl",
)
FIX = {"id": "step-011", "type": "coding", "description": "Fix failing tests: invalid transition and auth check"}
EXAMPLE = {
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
            "steps": [GATHERING],
            "history": [
                entry("2025-01-15T10:05:00Z", "story_claimed", 1),
                entry("2025-01-15T10:42:00Z", "story_completed", 1),
            ],
        },
        "US-002": {
            "story_id": "US-002",
            "title": "Add profile status API endpoint",
            "status": "in_progress",
            "agent_id": 2,
            "claimed_at": "2025-01-15T10:45:05Z",
            "completed_at": None,
            "depends_on": ["US-001"],
            "steps": [TESTING, step("008", "review", "pending", "Self-review against acceptance criteria")],
            "history": [
                entry("2025-01-15T10:45:05Z", "story_claimed", 2),
                entry(
                    *("2025-01-15T11:12:00Z", "workflow_edit", 2, "step-007"),
                    operation="add_after",
                    reason="2 tests failed \u2014 need a coding fix before review",
                    new_steps=[FIX],
                ),
            ],
        },
    },
}
"""The specification's example, with a step in each state."""
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
    state = read_state(json.dumps(EXAMPLE), name=NAME).state
    assert [story.status for story in state.stories.values()] == ["completed", "in_progress"]
    assert state.stories["US-002"].current.id == "step-013"
    assert json.loads(encode_state(state)) == EXAMPLE


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
    assert steps[0] == step(
        "001",
        "context_gathering",
        "completed",
        record.steps[0].description,
        started_at="2026-01-01T12:01:00Z",
        completed_at="2026-01-01T12:02:00Z",
        git_sha_at_start="a" * 40,
        notes="Found: src/a.py",
        cost_usd=0.5,
        input_tokens=1000,
        output_tokens=100,
        log_file="logs/step-001.jsonl",
    )
    assert list(steps[0]) == list(steps[9])
    assert history[0] == entry("2026-01-01T12:00:00Z", "story_claimed", 7)


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


def test_what_is_no_state_is_refused_with_the_place_and_what_to_do():
    """DR-8."""
    texts = {
        '{"version": 1,\n "created_at"': "workflow_state.json:2:14: ",
        "[" * 100_000: "nested too deeply",
        "[]": "Expected `object`",
        stored(version=2): "version 2 ",
        stored(created_at="2026-01-01T12:00:00"): "timezone",
        stored(prd_file="\ud800"): "workflow_state.json",
        with_story(lambda story: story.update(status="done")): r"'done' - at `\$.stories",
        with_story(named): "`US-001` .* `US-002`",
        stored(stories={"../x": json.loads(stored())["stories"]["US-001"]}): r"`\.\./x`",
        with_story(step_id(0, "step-002")): "`US-001` .* `step-002`",
        with_story(step_id(0, "step-9/../../x")): r"`US-001` .* `step-9/\.\./\.\./x`",
        with_story(lambda story: story["steps"][0].update(restart_count=-1)): "restart_count",
    }
    for text, message in texts.items():
        with pytest.raises(PlanInvalid, match=message) as caught:
            read_state(text, name=NAME)
        assert caught.value.fix
