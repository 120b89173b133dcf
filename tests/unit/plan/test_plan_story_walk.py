"""A PRD of five stories, executed by a few lines from its first claim to its end: how the functions fit together."""

import json

from scaffold.core.plan import TaskText
from scaffold.plan.source.prd import read_prd
from scaffold.plan.story.actions import new_record
from scaffold.plan.story.apply_edit import EditsApplied, RestartsExhausted, apply_file
from scaffold.plan.story.blocking import all_ended, claimable, reevaluated
from scaffold.plan.story.criteria_review import judge_criteria
from scaffold.plan.story.prompt import SharedFiles, StepContext, step_prompt
from scaffold.plan.story.rebase import with_rebase_step
from scaffold.plan.story.summary import find_summary, last_words
from scaffold.plan.story.transitions import (
    ClaimStory,
    CompleteStory,
    FailStep,
    RetryStory,
    StartStep,
    change_step,
    story_after,
)
from scaffold.plan.story.workflow_state import encode_state, project, read_state
from support.stories import COMMIT, NOON, USAGE, complete, ids, new, op, request

FILES = SharedFiles(scratch="scratch.md", story_scratch="scratch_story.md", edits="edits.json")
PRD = json.dumps(
    {
        "userStories": [
            {"id": "A", "title": "a", "acceptanceCriteria": ["It adds up"]},
            {"id": "B", "title": "b", "depends_on": ["A"], "priority": 2},
            {"id": "C", "title": "c", "depends_on": ["B"]},
            {"id": "D", "title": "d", "priority": 1},
            {"id": "E", "title": "e", "depends_on": ["D"]},
        ]
    }
)


class Executor:
    """Works on one story after the other; what agents do in a step is scripted by `STORY/step` and execution."""

    def __init__(self, text):
        self.stories = {story.id: story for story in read_prd(text, name="prd.json").tasks}
        self.records = {key: new_record(story) for key, story in self.stories.items()}
        self.prompts = {}
        self.edits = {}
        self.failing = set()
        self.conflicting = set()
        self.executions = []

    def run(self):
        while True:
            self.records = {record.story_id: record for record in reevaluated(tuple(self.records.values()))}
            ready = claimable(tuple(self.stories.values()), tuple(self.records.values()))
            if not ready:
                assert all_ended(tuple(self.records.values()))
                return
            key = ready[0].id
            self.records[key] = self.work(story_after(self.records[key], ClaimStory(at=NOON, agent_id=1)))

    def work(self, record):
        while record.status == "in_progress":
            if record.next_step is not None:
                record = self.step(record, record.next_step.id)
            elif record.story_id in self.conflicting:
                self.conflicting.remove(record.story_id)
                record = with_rebase_step(record, conflict="src/a.py", at=NOON)
            else:
                record = story_after(record, CompleteStory(at=NOON))
        return record

    def step(self, record, step_id):
        name = f"{record.story_id}/{step_id}"
        self.executions.append(name)
        record = change_step(record, step_id, StartStep(at=NOON, commit=COMMIT, log_file=f"logs/{name}.jsonl"))
        task = TaskText(acceptance=self.stories[record.story_id].acceptance)
        self.prompts[name] = step_prompt(task, record, step_id, StepContext(files=FILES))
        if name in self.failing:
            return change_step(record, step_id, FailStep(at=NOON, error="it broke", usage=USAGE))
        answer = f"Worked on {name}.\nCRITERION 1: met - src/a.py:1\nSUMMARY\nnotes of {name}"
        summary = find_summary(answer) or last_words(answer)
        if record.step(step_id).type in {"review", "final_review"}:
            assert all(each.met for each in judge_criteria(answer, task.acceptance, lambda _: True))
        asked = self.edits.get(name, ())
        execution = f"attempt-{self.executions.count(name)}"
        content = json.dumps(asked[:1] if asked else []).encode()
        self.edits[name] = asked[1:]
        outcome = apply_file(record, request(step_id, execution), content)
        if isinstance(outcome, RestartsExhausted):
            return change_step(record, step_id, FailStep(at=NOON, error=outcome.error, usage=USAGE))
        edited = outcome.story if isinstance(outcome, EditsApplied) else record
        return complete(edited, step_id, summary.notes) if edited.current else edited

    @property
    def statuses(self):
        return "".join(f"{key}:{record.status} " for key, record in self.records.items()).strip()


def test_five_stories_with_a_conflict_a_restart_a_fix_cycle_a_failure_and_a_retry():
    """DR-3, DR-4, DR-5, DR-7, DR-10, DR-11, DR-13, DR-17."""
    executor = Executor(PRD)
    fix = [new("coding", "Fix the sum"), new("linting"), new("initial_testing")]
    executor.edits = {
        "A/step-005": [op("restart", "step-005", new_description="Use a view")],
        "A/step-007": [op("add_after", "step-007", new_steps=fix)],
        "A/step-010": [op("add_after", "step-009", new_steps=[new("coding", "Remove a leftover")])],
        "D/step-002": [op("skip", "step-006")],
    }
    executor.conflicting = {"D"}
    executor.failing = {"B/step-003"}
    executor.run()
    assert executor.statuses == "A:completed B:failed C:blocked D:completed E:completed"
    assert ids(executor.records["A"]) == [
        "001",
        "002",
        "003",
        "004",
        "005",
        "006",
        "007",
        "011",
        "012",
        "013",
        "008",
        "009",
        "014",
        "010",
    ]
    assert ids(executor.records["D"]) == ["001", "002", "003", "004", "005", "006", "007", "008", "009", "011", "010"]
    assert [each for each in executor.executions if each.startswith("A/step-0") and each.endswith(("05", "10"))] == [
        *["A/step-005"] * 2,
        *["A/step-010"] * 2,
    ]
    assert executor.executions[0].startswith("D/")
    assert "# This step was restarted 1 time" in executor.prompts["A/step-005"]
    assert "## step-007 (initial_testing)\nnotes of A/step-007" in executor.prompts["A/step-011"]
    assert "since the story began: src/a.py" in executor.prompts["D/step-011"]

    executor.failing.clear()
    executor.records["B"] = story_after(executor.records["B"], RetryStory(at=NOON))
    executor.run()
    assert executor.statuses == "A:completed B:completed C:completed D:completed E:completed"
    assert executor.executions.count("B/step-002") == 1
    assert executor.executions.count("B/step-003") == 2

    state = project(tuple(executor.records.values()), created_at=NOON, prd_file="prd.json")
    assert read_state(encode_state(state).decode(), name="workflow_state.json").state == state


def test_a_step_that_asks_for_a_fourth_restart_fails_its_story():
    """DR-4."""
    executor = Executor(PRD)
    executor.edits = {"D/step-005": [op("restart", "step-005", new_description=f"way {n}") for n in range(9)]}
    executor.run()
    assert executor.statuses == "A:completed B:completed C:completed D:failed E:blocked"
    assert executor.executions.count("D/step-005") == 4
    assert executor.records["D"].step("step-005").error.startswith("`step-005` was restarted 3 times already")
