"""Edits of a workflow: what can be read, what the guardrails refuse, and how a file of them is applied."""

import json

import pytest
from inline_snapshot import snapshot

from scaffold.core.errors import IllegalTransition, PlanInvalid, UsageError
from scaffold.plan.story.apply_edit import (
    EditsApplied,
    EditsKnown,
    EditsRejected,
    RestartsExhausted,
    apply_edits,
    apply_file,
    foreign_files,
)
from scaffold.plan.story.record import default_workflow
from scaffold.plan.story.step_edit import MAX_EDIT_BYTES, edits_from_node, problems_in, read_edits
from scaffold.plan.text.parse_tree import node_from_value
from support.stories import apply, at, complete, ids, lose, new, next_step, op, request, start, working_on

FILE = "US-001.json"


def read(content):
    return read_edits(content if isinstance(content, bytes) else content.encode(), name=FILE)


def problems(content):
    with pytest.raises(PlanInvalid) as caught:
        read(content)
    return problems_in(caught.value)


def first_message(content):
    """Return the place and the message of the first problem; each problem says what to do."""
    with pytest.raises(PlanInvalid) as caught:
        read(content)
    assert all(finding.fix for finding in caught.value.findings)
    first = caught.value.findings[0]
    return f"{first.line}:{first.column}: {first.message}"


def written(*operations):
    return json.dumps(operations)


def applied(record, step_id, *operations, **more):
    outcome = apply(record, step_id, *operations, **more)
    assert isinstance(outcome, EditsApplied), outcome
    return outcome.story


def rejected(record, step_id, *operations):
    """Return the problem for which these operations are rejected, without its position."""
    outcome = apply(record, step_id, *operations)
    assert isinstance(outcome, EditsRejected), outcome
    *_, problem = outcome.feedback.splitlines()
    return problem.split("): ", 1)[1]


def test_what_cannot_be_read_is_refused_with_line_column_and_what_to_do():
    """DR-5: half-written, huge, or not what an edit looks like."""
    assert problems(written(op("skipp", "step-009"))) == snapshot(
        (
            (
                "1:16: operation 1.operation: `skipp` is not an operation. Did you mean `skip`? The "
                "operations are add_after, split, skip, reorder, edit_description, restart. Write a "
                "different one."
            ),
        )
    )
    assert "`coding`" in problems(written(op("split", "step-005", replacement_steps=[new("code")])))[0]
    messages = {
        b"": snapshot("1:1: the file is empty"),
        '[{"operation": "skip",\n  "target_step': snapshot("2:3: invalid JSON: Unterminated string starting at"),
        b'[\n "caf\xc3\xa9 \xff"]': snapshot("2:8: the text is not UTF-8"),
        "[" * 60_000: snapshot("1:1: the text is nested too deeply"),
        b" " * (MAX_EDIT_BYTES + 1): snapshot("1:1: the file has more than 65,536 bytes"),
        "7": snapshot("1:1: expected an array of operations"),
        '["skip"]': snapshot("1:2: operation 1: expected a mapping, found the text `skip`"),
        "[{}]": snapshot("1:2: operation 1: the key `operation` is missing"),
        written(*[op("skip", "step-009")] * 31): snapshot("1:1: the array has 31 operations; the limit is 30"),
        written(op("skip", "step-009", reason=" ")): snapshot("1:34: operation 1.reason: ` ` says nothing"),
        written(op("skip")): snapshot("1:2: operation 1: the key `target_step_id` is missing"),
        '[{"operation": "skip", "target_step_id": "x"}]': snapshot("1:2: operation 1: the key `reason` is missing"),
        written(op("skip", "step-009", reason="x" * 2_001)): snapshot(
            "1:34: operation 1.reason: "
            "`xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...` has 2,001 "
            "characters; the limit is 2,000"
        ),
        written(op("skip", "step-009", reason="\0")): snapshot(
            "1:34: operation 1.reason: `\\x00` contains a character that is not allowed (NUL or half a surrogate pair)"
        ),
        written(op("skip", 9)): snapshot(
            "1:63: operation 1.target_step_id: expected text, found the number `9`; put it in quotes"
        ),
        written(op("skip", "step-009", new_steps=[new("coding")])): snapshot(
            "1:88: operation 1.new_steps: does not belong to `skip`"
        ),
        written(op("add_after", "step-007", new_steps=[])): snapshot("1:93: operation 1.new_steps: the list is empty"),
        written(op("add_after", "step-007", new_steps={})): snapshot(
            "1:93: operation 1.new_steps: expected a list, found a mapping"
        ),
        written(op("add_after", "step-007", new_steps=[{"type": "coding"}])): snapshot(
            "1:94: operation 1.new_steps[0]: the key `description` is missing"
        ),
        written(op("edit_description", "step-007", new_description="")): snapshot(
            "1:106: operation 1.new_description: `` says nothing"
        ),
        written(op("reorder", new_order=["step-009", "step-009"])): snapshot(
            "1:61: operation 1.new_order: names a step twice, or not by its id"
        ),
        written(op("reorder", new_order=["step-009", 10])): snapshot(
            "1:74: operation 1.new_order[1]: expected text, found the number `10`; put it in quotes"
        ),
        '[{"operation": "skip", "operation": "split", "reason": "r"}]': snapshot(
            "1:24: operation 1: the key `operation` is written twice"
        ),
    }
    assert {content: first_message(content) for content in messages} == messages


def test_all_problems_of_a_file_are_reported_at_once():
    """DR-5."""
    found = problems(written(op("skip"), op("nothing"), op("restart", "step-005")))
    assert [each.split(": ")[1] for each in found] == ["operation 1", "operation 2.operation", "operation 3"]
    outcome = apply(working_on("step-005"), "step-005", *[op("skip")] * 9)
    assert outcome.feedback.splitlines()[-1] == "- and 4 more problems"


def test_an_edit_may_have_fields_of_its_own_and_an_empty_file_of_edits_changes_nothing():
    """DR-5."""
    (edit,) = read(written(op("skip", "step-009", author="me")))
    assert edit.name == "skip"
    record = working_on("step-005")
    assert applied(record, "step-005") == record


def test_edits_of_a_tool_call_are_read_like_those_of_a_file():
    """DR-6."""
    operations = [op("skip", "step-009"), op("add_after", "step-007", new_steps=[new("coding")])]
    of_tool = edits_from_node(node_from_value(operations), name="edits")
    assert [each.operation for each in of_tool] == [each.operation for each in read(json.dumps(operations))]
    outcome = apply_edits(working_on("step-005"), request("step-005"), of_tool, "some identity")
    assert isinstance(outcome, EditsApplied)


def test_edits_from_steps_without_permission_are_rejected():
    """DR-2."""
    again = op("restart", "step-001", new_description="again")
    for step_id in ("step-001", "step-006", "step-009"):
        record = working_on(step_id)
        for operation in (op("skip", "step-010"), again, op("reorder", new_order=[])):
            assert f"a step of type `{record.step(step_id).type}` " in rejected(record, step_id, operation)
    assert rejected(working_on("step-001"), "step-001", again) == snapshot(
        "a step of type `context_gathering` may not edit the workflow. Write what you found into "
        "your summary; a later step can edit the workflow (`planning`, `architecture`, "
        "`test_architecture`, `coding`, `initial_testing` and 2 more)."
    )


def at_limit():
    """Return a story in review with 30 steps."""
    return applied(working_on("step-008"), "step-008", op("add_after", "step-008", new_steps=[new("coding")] * 20))


def test_a_guardrail_refuses_with_what_to_do_instead():
    """DR-5: and nothing of the file is applied."""
    operations = (
        op("skip", "step-006"),
        op("split", "step-006", replacement_steps=[new("coding")]),
        op("split", "step-010", replacement_steps=[new("final_review")]),
        op("skip", "step-002"),
        op("edit_description", "step-005", new_description="x"),
        op("restart", "step-007", new_description="x"),
        op("add_after", "step-010", new_steps=[new("coding")]),
        op("add_after", "step-007", new_steps=[new("rebase_resolve")]),
        op("add_after", "step-007", new_steps=[new("coding", id="step-001")]),
        op("add_after", "step-077", new_steps=[new("coding")]),
        op("skip", "../../etc/passwd\n"),
        op("skip", "step-009", story_id="US-002"),
        op("reorder", new_order=["step-006", "step-007"]),
        op("reorder", new_order=["step-001"]),
        op("reorder", new_order=["step-006", "step-007", "step-010", "step-008", "step-009"]),
        op("add_after", "step-007", new_steps=[new("coding")] * 21),
        op("split", "step-007", replacement_steps=[new("coding")] * 22),
    )
    record, valid = working_on("step-005"), op("edit_description", "step-009", new_description="x")
    assert [rejected(record, "step-005", valid, operation) for operation in operations] == snapshot(
        [
            "`step-006` is of type `linting`, which cannot be skipped. Leave it in.",
            (
                "`step-006` is of type `linting`, and none of its replacements is. Leave it in, and "
                "add other steps before it with `add_after`."
            ),
            "a step of type `final_review` cannot be added. Add `review` steps for more reviews.",
            "`step-002` is completed; only pending steps can be changed. Add a new step instead.",
            "`step-005` is in_progress; only pending steps can be changed. Use `restart` for your own step.",
            (
                "`step-007` is pending and not the step you work on. Restart your own step `step-005`, "
                "or use `edit_description` for a pending one."
            ),
            "nothing comes after the final review `step-010`. Add the steps after `step-009`, the step before it.",
            "a step of type `rebase_resolve` cannot be added. Conflicts get their step by themselves.",
            (
                "the new step `step-001` would get the id `step-011`. Leave `id` out of new steps: "
                "they get the next numbers."
            ),
            "there is no step `step-077`. Did you mean `step-007`? The steps are step-001 to step-010, in their order.",
            "there is no step `../../etc/passwd\\n`. The steps are step-001 to step-010, in their order.",
            (
                "it is about the story `US-002`, and you work on `US-001`. Edit your own story only; "
                "write what others should know into `scratch.md`."
            ),
            (
                "the order must have all pending steps and no others, and `step-008` is missing. Name "
                "each of these once: step-006, step-007, step-008, step-009, step-010."
            ),
            (
                "the order must have all pending steps and no others, and `step-001` is not pending. "
                "Name each of these once: step-006, step-007, step-008, step-009, step-010."
            ),
            "the final review `step-010` must be the last step. Put `step-010` at the end.",
            (
                "the workflow would have 31 steps; the limit is 30, completed and skipped ones "
                "included. Add at most 20 steps here, or put the work into pending steps' descriptions."
            ),
            (
                "the workflow would have 31 steps; the limit is 30, completed and skipped ones "
                "included. Add at most 21 steps here, or put the work into pending steps' descriptions."
            ),
        ]
    )


def test_a_story_with_30_steps_takes_no_more_and_goes_on():
    """DR-4, DR-5."""
    record = at_limit()
    assert "31 steps" in rejected(record, "step-008", op("add_after", "step-009", new_steps=[new("coding")]))
    assert len(applied(record, "step-008", op("split", "step-009", replacement_steps=[new("coding")])).steps) == 30
    assert len(applied(record, "step-008", op("skip", "step-009")).steps) == 30
    assert complete(record, "step-008").status == "in_progress"


def test_a_fourth_restart_is_refused_and_fails_the_step():
    """DR-4, DR-5, DR-12: of those that were asked for; that a process was lost is shown, and does not count."""
    again = op("restart", "step-005", new_description="another way")
    record = start(lose(working_on("step-005"), "step-005"), "step-005")
    for count in range(3):
        outcome = apply(record, "step-005", again, attempt=f"attempt-{count}")
        assert (type(outcome), outcome.resets_worktree) == (EditsApplied, True)
        record = start(outcome.story, "step-005")
    assert record.step("step-005").restart_count == 4
    outcome = apply(record, "step-005", op("skip", "step-009"), again)
    assert isinstance(outcome, RestartsExhausted)
    assert outcome.error == snapshot(
        "`step-005` was restarted 3 times already; it fails now, and its story with it (it asked because: because)"
    )
    assert "1:76: restart (reason: `because`): " in outcome.feedback


def test_a_step_is_restarted_once_in_a_file():
    """DR-5."""
    again = op("restart", "step-005", new_description="another way")
    assert "is pending again" in rejected(working_on("step-005"), "step-005", again, again)


def test_a_guardrail_of_a_mandatory_step_allows_more_of_them():
    """DR-5."""
    steps = [new("coding"), new("linting")]
    record = applied(working_on("step-005"), "step-005", op("split", "step-006", replacement_steps=steps))
    assert ids(record)[4:8] == ["005", "011", "012", "007"]
    assert "`linting`" in rejected(record, "step-005", op("skip", "step-012"))


def test_edits_of_a_file_build_on_each_other():
    """DR-5: ids of new steps can be foreseen, and an order has them."""
    record = applied(
        working_on("step-008"),
        "step-008",
        op("add_after", "step-002", new_steps=[new("coding", id="step-011"), new("linting")]),
        op("edit_description", "step-011", new_description="first"),
        op("reorder", new_order=["step-009", "step-012", "step-011", "step-010"]),
        op("skip", "step-009"),
    )
    assert ids(record) == ["001", "002", "009", "012", "003", "004", "005", "006", "007", "008", "011", "010"]
    assert next_step(complete(record, "step-008")).id == "step-012"
    assert record.step("step-011").description == "first"


def test_every_edit_is_recorded_with_the_steps_before_and_after():
    """DR-5, DR-8."""
    record = working_on("step-008")
    after = applied(record, "step-008", op("skip", "step-009"), op("add_after", "step-008", new_steps=[new("coding")]))
    assert after.history[: len(record.history)] == record.history
    skip, skipped, add = after.history[len(record.history) :]
    assert (skip.action, skip.step_id, skip.agent_id, skip.timestamp) == ("workflow_edit", "step-008", 7, at(3))
    pruned = {"id": "step-009", "type": "prune_tests", "description": "Remove redundant tests"}
    assert {key: skip.details[key] for key in ("operation", "reason", "target_step_id", "before", "after")} == {
        "operation": "skip",
        "reason": "because",
        "target_step_id": "step-009",
        "before": [pruned | {"status": "pending"}],
        "after": [pruned | {"status": "skipped"}],
    }
    assert (skipped.action, skipped.step_id, skipped.details) == ("step_skipped", "step-009", {"reason": "because"})
    assert (add.details["before"], [each["id"] for each in add.details["after"]]) == ([], ["step-011"])
    moved = applied(after, "step-008", op("reorder", new_order=["step-011", "step-010"])).history[-1]
    assert (moved.details["new_order"], moved.details["before"]) == (["step-011", "step-010"], [])


def test_edits_of_a_running_final_review_come_before_it_and_it_runs_again():
    """DR-5: what it changed stays, and it is no restart."""
    outcome = apply(working_on("step-010"), "step-010", op("add_after", "step-009", new_steps=[new("coding")]))
    assert not outcome.resets_worktree
    record = outcome.story
    assert ids(record)[-3:] == ["009", "011", "010"]
    final = record.step("step-010")
    assert (final.status, final.restart_count, final.cost_usd, next_step(record).id) == ("pending", 0, 0.5, "step-011")
    said = rejected(working_on("step-010"), "step-010", op("add_after", "step-010", new_steps=[new("coding")]))
    assert "`step-009`" in said
    order = ["step-011", "step-010"]
    two = apply(
        working_on("step-010"),
        "step-010",
        op("add_after", "step-009", new_steps=[new("coding")]),
        op("reorder", new_order=order),
    )
    assert ids(two.story)[-2:] == ["011", "010"]


def test_a_running_final_review_that_adds_nothing_is_not_repeated():
    """DR-5."""
    restarted = apply(working_on("step-010"), "step-010", op("restart", "step-010", new_description="look again"))
    assert restarted.resets_worktree
    assert restarted.story.step("step-010").restart_count == 1
    record = applied(working_on("step-010"), "step-010", op("reorder", new_order=[]))
    assert record.current.id == "step-010"


def test_the_same_edits_of_the_same_execution_are_applied_once():
    """DR-6: also if a step is completed, or its process is killed, between the two."""
    edits = (op("add_after", "step-007", new_steps=[new("coding")]), op("skip", "step-009"))
    record = applied(working_on("step-007"), "step-007", *edits)
    assert isinstance(apply(record, "step-007", *edits), EditsKnown)
    assert isinstance(apply(complete(record, "step-007"), "step-007", *edits), EditsKnown)


def test_the_same_edits_of_another_execution_are_other_edits():
    """DR-6."""
    fix = op("add_after", "step-009", new_steps=[new("coding")])
    record = applied(working_on("step-010"), "step-010", fix)
    record = working_on("step-010", record)
    again = applied(record, "step-010", fix, attempt="attempt-2")
    assert ids(again)[-4:] == ["009", "012", "011", "010"]


def test_only_a_step_in_progress_edits_the_workflow():
    """DR-5."""
    with pytest.raises(IllegalTransition, match="`step-002` is completed"):
        apply(working_on("step-003"), "step-002", op("skip", "step-009"))
    with pytest.raises(UsageError, match="`step-099`"):
        apply(working_on("step-003"), "step-099", op("skip", "step-009"))


def test_feedback_of_rejected_edits_names_file_place_reason_and_way_out_and_is_the_same_each_time():
    """DR-5: so that it is written into the story's scratch file once."""
    record = working_on("step-005")
    first, second = (apply(record, "step-005", op("skip", "step-006")) for _ in range(2))
    assert first == second
    head, none, problem = first.feedback.splitlines()
    assert head.startswith("## The workflow edits of step-005 were rejected (")
    assert none == snapshot("None of them was applied:")
    assert problem == snapshot(
        "- workflow_edits/US-001.json:1:2: skip (reason: `because`): `step-006` is of type `linting`"
        ", which cannot be skipped. Leave it in."
    )
    unreadable = apply_file(record, request("step-005"), b"[{")
    assert "- workflow_edits/US-001.json:1:3: invalid JSON" in unreadable.feedback


def test_files_for_other_stories_are_not_an_agents_own():
    """DR-5, DR-6."""
    (refusal,) = foreign_files(["US-001.json", "US-002.json"], "US-001.json")
    assert refusal.what == snapshot("the edit file `US-002.json` is for another story")
    assert "`US-001.json`" in refusal.fix


def test_a_story_without_steps_has_no_step_to_name():
    """DR-5: a record from elsewhere may begin with any step."""
    record = working_on("step-002")
    lonely = type(record)(story_id="US-001", title="t", status="in_progress", steps=(record.current,))
    assert "step-002 to step-002" in rejected(lonely, "step-002", op("skip", "x"))
    alone = start(
        type(record)(story_id="US-001", title="t", status="in_progress", steps=default_workflow()[-1:]), "step-010"
    )
    said = rejected(alone, "step-010", op("add_after", "step-010", new_steps=[new("coding")]))
    assert said == snapshot("nothing comes after the final review `step-010`. Add the steps after a step before it.")
