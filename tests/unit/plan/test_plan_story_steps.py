"""Types of steps, their default workflow, and the transitions of steps and stories."""

import pytest
from inline_snapshot import snapshot
from msgspec.structs import replace

from scaffold.core.errors import IllegalTransition, UsageError
from scaffold.core.model import Usage
from scaffold.plan.story.actions import new_record
from scaffold.plan.story.rebase import with_rebase_step
from scaffold.plan.story.record import StepRecord, default_workflow, next_ids
from scaffold.plan.story.step_type import DEFAULT_WORKFLOW, MANDATORY, STEP_TYPES
from scaffold.plan.story.transitions import (
    ORPHANED,
    BlockStory,
    CancelStep,
    ClaimStory,
    CompleteStep,
    CompleteStory,
    FailStep,
    FailStory,
    LoseStep,
    RestartStep,
    RetryStep,
    RetryStory,
    SkipStep,
    StartStep,
    UnblockStory,
    change_step,
    step_after,
    story_after,
)
from support.stories import COMMIT, NOON, USAGE, apply, at, claimed, complete, ids, new, op, start, story, working_on

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
STATUSES = ("pending", "in_progress", "completed", "skipped", "failed", "cancelled")
START = StartStep(at=at(1), commit=COMMIT, log_file="logs/x.jsonl")
COMPLETE = CompleteStep(at=at(2), notes="done", usage=USAGE)
FAIL = FailStep(at=at(2), error="it broke", usage=USAGE)
CANCEL = CancelStep(at=at(2), error="timeout after 5 min", usage=USAGE)
SKIP = SkipStep(at=at(2), reason="not needed")
RESTART = RestartStep(at=at(2), reason="wrong way", description="the right way", usage=USAGE)
LOSE = LoseStep(at=at(2))
RETRY = RetryStep()
LEGAL = {
    ("pending", "StartStep"): "in_progress",
    ("pending", "SkipStep"): "skipped",
    ("in_progress", "CompleteStep"): "completed",
    ("in_progress", "FailStep"): "failed",
    ("in_progress", "CancelStep"): "cancelled",
    ("in_progress", "RestartStep"): "pending",
    ("in_progress", "LoseStep"): "pending",
    ("failed", "RetryStep"): "pending",
    ("cancelled", "RetryStep"): "pending",
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


def status_after(status, change):
    """Return the status that the change leads to, or None if it is refused with the status of the step."""
    try:
        return step_after(a_step(status=status), change).status
    except IllegalTransition as refusal:
        return None if refusal.what.startswith(f"step `step-005` is {status} ") else refusal.what


def test_a_step_changes_as_the_table_says_and_in_no_other_way():
    """DR-4: an illegal transition names both statuses."""
    changes = {type(change).__name__: change for change in (START, COMPLETE, FAIL, CANCEL, SKIP, RESTART, LOSE, RETRY)}
    found = {(status, name): status_after(status, change) for status in STATUSES for name, change in changes.items()}
    assert {row: to for row, to in found.items() if to is not None} == LEGAL
    with pytest.raises(IllegalTransition) as caught:
        step_after(a_step(), COMPLETE)
    assert caught.value.in_full == snapshot(
        "step `step-005` is pending and cannot become completed. It becomes completed only from in_progress."
    )


def test_a_step_has_what_happened_to_it():
    """DR-8."""
    begun = step_after(a_step(), START)
    assert (begun.started_at, begun.git_sha_at_start, begun.log_file) == (at(1), COMMIT, "logs/x.jsonl")
    done = step_after(begun, COMPLETE)
    assert (done.completed_at, done.notes) == (at(2), "done")
    assert (done.cost_usd, done.input_tokens, done.output_tokens) == (0.5, 1000, 100)
    assert step_after(begun, FAIL).error == "it broke"
    assert step_after(begun, CANCEL).error == "timeout after 5 min"
    assert step_after(a_step(), SKIP).skip_reason == "not needed"


def test_a_restart_forgets_the_execution_and_keeps_what_it_cost():
    """DR-4, DR-8."""
    again = step_after(step_after(a_step(), START), RESTART)
    assert again == a_step(
        description="the right way", restart_count=1, cost_usd=0.5, input_tokens=1000, output_tokens=100
    )
    done = step_after(step_after(again, START), COMPLETE)
    assert (done.cost_usd, done.input_tokens) == (1.0, 2000)
    unknown = replace(COMPLETE, usage=Usage(input_tokens=5, cost_usd=None))
    priced = step_after(step_after(step_after(step_after(a_step(), START), RESTART), START), unknown)
    assert (priced.cost_usd, priced.input_tokens) == (None, 1005)


def test_a_fourth_restart_fails_the_step():
    """DR-4, DR-12: a lost process counts as a restart."""
    for change in (RESTART, LOSE):
        step = a_step()
        for count in (1, 2, 3):
            step = step_after(step_after(step, START), change)
            assert (step.status, step.restart_count) == ("pending", count)
        failed = step_after(step_after(step, START), change)
        assert (failed.status, failed.restart_count, failed.completed_at) == ("failed", 3, at(2)), change
        assert "restarted 3 times" in failed.error


def test_ids_rise_and_are_never_given_twice():
    """DR-3."""
    assert next_ids((), 2) == ("step-001", "step-002")
    assert next_ids(default_workflow(), 2) == ("step-011", "step-012")
    assert next_ids((a_step(id="step-999"), a_step(id="other")), 1) == ("step-1000",)


def test_a_story_is_worked_step_by_step_and_completed_once_all_have_ended():
    """DR-3, DR-4."""
    record = new_record(story(depends_on=("US-000",)))
    assert (record.status, record.steps, record.next_step, record.depends_on) == ("unclaimed", (), None, ("US-000",))
    record = working_on("step-009")
    assert record.current.id == "step-009"
    assert record.next_step is None
    record = complete(record, "step-009")
    with pytest.raises(IllegalTransition) as caught:
        story_after(record, CompleteStory(at=at(9)))
    assert caught.value.what == snapshot(
        "story `US-001` is in_progress and cannot become completed: step `step-010` is pending"
    )
    record = story_after(complete(start(record, "step-010"), "step-010"), CompleteStory(at=at(9)))
    assert (record.status, record.completed_at, record.next_step) == ("completed", at(9), None)
    actions = [entry.action for entry in record.history]
    assert actions == ["story_claimed", *["step_started", "step_completed"] * 10, "story_completed"]
    assert {entry.agent_id for entry in record.history} == {7}


def test_a_story_that_passes_is_completed_from_the_start():
    """DR-1."""
    assert new_record(story(done=True)).status == "completed"


def test_steps_are_executed_one_after_the_other():
    """DR-3."""
    record = claimed()
    with pytest.raises(IllegalTransition) as caught:
        start(record, "step-002")
    assert caught.value.what == snapshot(
        "step `step-002` is pending and cannot become in_progress: `step-001` is pending before it"
    )
    with pytest.raises(IllegalTransition, match="`step-001` is in_progress before"):
        start(start(record, "step-001"), "step-002")
    with pytest.raises(IllegalTransition):
        start(start(record, "step-001"), "step-001")
    with pytest.raises(UsageError, match=r"`\.\./x`") as caught:
        start(record, "../x")
    assert "`step-001`" in caught.value.fix
    with pytest.raises(UsageError) as caught:
        new_record(story()).step("step-001")
    assert caught.value.fix == snapshot("Name one of its steps: none yet.")


@pytest.mark.parametrize(("change", "status"), [(FAIL, "failed"), (CANCEL, "cancelled")])
def test_a_step_that_fails_or_is_cancelled_fails_its_story(change, status):
    """DR-4, DR-9."""
    record = change_step(working_on("step-005"), "step-005", change)
    assert (record.step("step-005").status, record.status, record.next_step.id) == (status, "failed", "step-006")
    assert [entry.action for entry in record.history[-2:]] == [f"step_{status}", "story_failed"]
    assert record.history[-1].details == {"error": f"step-005: {change.error}"}
    with pytest.raises(IllegalTransition, match="story `US-001` is failed"):
        start(record, "step-006")


def test_a_lost_step_is_executed_again_and_fails_its_story_the_fourth_time():
    """DR-12: never past it."""
    record = working_on("step-005")
    for _ in range(3):
        record = change_step(record, "step-005", LOSE)
        assert (record.status, record.next_step.id) == ("in_progress", "step-005")
        assert record.history[-1].action == "step_failed"
        assert record.history[-1].details == {"error": ORPHANED}
        record = start(record, "step-005")
    record = change_step(record, "step-005", LOSE)
    assert (record.step("step-005").status, record.status) == ("failed", "failed")


@pytest.mark.parametrize("change", [FAIL, CANCEL])
def test_a_retried_story_is_claimed_again_and_goes_on_at_the_step_that_failed(change):
    """DR-4, DR-17."""
    record = story_after(change_step(working_on("step-005"), "step-005", change), RetryStory(at=at(5)))
    assert (record.status, record.agent_id, record.claimed_at) == ("unclaimed", None, None)
    entry = record.history[-1]
    assert (entry.action, entry.details["operation"], entry.step_id) == ("workflow_edit", "retry", None)
    assert [each["status"] for each in entry.details["after"]] == ["pending"]
    record = story_after(record, ClaimStory(at=at(6), agent_id=2))
    assert (record.next_step.id, record.step("step-005").error, record.step("step-004").notes) == (
        "step-005",
        None,
        "notes of step-004",
    )


def story_status_after(status, change):
    """Return the status that the change leads to, or None if it is refused with the status of the story."""
    try:
        return story_after(replace(new_record(story()), status=status), change).status
    except IllegalTransition as refusal:
        return None if refusal.what.startswith(f"story `US-001` is {status} ") else refusal.what


def test_a_story_changes_as_the_table_says_and_in_no_other_way():
    """DR-4."""
    legal = {
        ("unclaimed", ClaimStory(at=NOON, agent_id=1)): "in_progress",
        ("in_progress", FailStory(at=NOON, error="e")): "failed",
        ("in_progress", CompleteStory(at=NOON)): "completed",
        ("unclaimed", BlockStory()): "blocked",
        ("blocked", UnblockStory()): "unclaimed",
        ("failed", RetryStory(at=NOON)): "unclaimed",
    }
    statuses = ("unclaimed", "in_progress", "completed", "failed", "blocked")
    found = {(status, change): story_status_after(status, change) for status in statuses for _, change in legal}
    assert {row: to for row, to in found.items() if to is not None} == legal


def test_a_story_does_not_fail_by_itself_while_a_step_is_in_progress():
    """DR-4."""
    with pytest.raises(IllegalTransition, match="`step-003` is in_progress"):
        story_after(working_on("step-003"), FailStory(at=NOON, error="e"))


def conflicting():
    return complete(working_on("step-010"), "step-010")


def test_a_conflict_is_resolved_in_a_step_of_its_own_before_the_final_review_which_is_repeated():
    """DR-11."""
    record = with_rebase_step(conflicting(), conflict="src/a.py", at=at(8))
    assert ids(record)[-2:] == ["011", "010"]
    resolve, final = record.steps[-2:]
    assert (resolve.type, resolve.status, record.next_step) == ("rebase_resolve", "pending", resolve)
    assert resolve.description.endswith("since the story began: src/a.py")
    assert (final.status, final.notes, final.cost_usd) == ("pending", None, 0.5)
    details = record.history[-1].details
    assert (details["operation"], details["reason"]) == snapshot(("add_after", "conflicts with what landed: src/a.py"))
    assert [each["id"] for each in details["before"]] == ["step-010"]
    assert [(each["id"], each["status"]) for each in details["after"]] == [
        ("step-011", "pending"),
        ("step-010", "pending"),
    ]


def test_a_final_review_whose_work_conflicts_is_repeated_after_the_conflict_is_resolved():
    """DR-11: it is in progress until its work has landed."""
    record = with_rebase_step(working_on("step-010"), conflict="src/a.py", at=at(8), usage=USAGE)
    final = record.step("step-010")
    assert (final.status, final.cost_usd, record.next_step.type) == ("pending", 0.5, "rebase_resolve")


@pytest.mark.parametrize("in_progress", [False, True])
def test_a_conflict_fails_a_story_that_has_30_steps_already(in_progress):
    """DR-4."""
    record = apply(
        working_on("step-008"), "step-008", op("add_after", "step-008", new_steps=[new("coding")] * 20)
    ).story
    record = complete(record, "step-008")
    record = working_on("step-010", record)
    record = record if in_progress else complete(record, "step-010")
    record = with_rebase_step(record, conflict="src/a.py", at=at(8))
    assert (record.status, len(record.steps)) == ("failed", 30)
    assert record.history[-1].details["error"].endswith("and it has 30 steps already")


def test_a_step_for_conflicts_is_inserted_only_between_two_steps():
    """DR-11."""
    for record in (new_record(story()), working_on("step-004"), replace(claimed(), steps=())):
        with pytest.raises(IllegalTransition):
            with_rebase_step(record, conflict="src/a.py", at=at(8))
