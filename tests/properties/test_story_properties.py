"""Stories under any sequence of work, edits and rubbish: no invariant of their workflow breaks, and nothing is lost."""

import json

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from scaffold.core.plan import TaskText
from scaffold.plan.story.actions import step_actions, step_key
from scaffold.plan.story.apply_edit import (
    EditsApplied,
    EditsKnown,
    EditsRejected,
    RestartsExhausted,
    apply_file,
    with_rebase_step,
)
from scaffold.plan.story.guardrails import MAX_RESTARTS, MAX_STEPS
from scaffold.plan.story.prompt import SharedFiles, StepContext, step_prompt
from scaffold.plan.story.step_type import STEP_TYPES
from scaffold.plan.story.workflow_state import encode_state, project, read_state
from support.property_examples import up_to
from support.stories import NOON, apply, complete, lose, next_step, op, request, start, working_on

FILES = SharedFiles(scratch="s", story_scratch="t", edits="e")
step_ids = st.integers(1, 14).map("step-{:03d}".format) | st.sampled_from(
    ["step-000", "", "../step-001", "final_review"]
)
texts = st.sampled_from(["do it", "do it well", "x" * 500])
new_steps = st.lists(
    st.fixed_dictionaries({"type": st.sampled_from(sorted(STEP_TYPES)), "description": texts}), min_size=1, max_size=4
)
sound_steps = st.lists(
    st.fixed_dictionaries({"type": st.sampled_from(["coding", "linting", "review"]), "description": texts}),
    min_size=1,
    max_size=9,
)


likely = st.sampled_from(["reorder", "skip", "add_after", "split", "restart", "edit_description"])


def operation(name, **fields):
    return st.fixed_dictionaries({"operation": st.just(name), "reason": texts} | fields)


operations = st.one_of(
    operation("add_after", target_step_id=step_ids, new_steps=new_steps | sound_steps),
    operation("split", target_step_id=step_ids, replacement_steps=new_steps | sound_steps),
    operation("skip", target_step_id=step_ids),
    operation("edit_description", target_step_id=step_ids, new_description=texts),
    operation("reorder", new_order=st.lists(step_ids, max_size=10)),
    operation("restart", target_step_id=step_ids, new_description=texts),
    operation("skip"),
)


def number(step):
    return int(step.id.removeprefix("step-"))


class WorkOnAStory(RuleBasedStateMachine):
    """One story, from its claim on: worked, edited, killed, in conflict."""

    def __init__(self):
        super().__init__()
        self.record = working_on("step-002")
        self.highest = 10
        self.executions = 0
        self.ended = {}

    @initialize(added=st.integers(0, MAX_STEPS - 10), restarts=st.integers(0, MAX_RESTARTS))
    def plan(self, added, restarts):
        """Begin with a story in planning, with more steps, and one that was restarted before."""
        record = working_on("step-002")
        steps = [{"type": "coding", "description": "do it"}] * added
        if added:
            record = apply(record, "step-002", op("add_after", "step-009", new_steps=steps)).story
        self.highest += added
        again = op("restart", "step-002", new_description="another way")
        for count in range(restarts):
            record = start(apply(record, "step-002", again, attempt=f"before-{count}").story, "step-002")
        self.record = record
        self.ended = {"step-001": record.steps[0]}

    def becomes(self, record, *, may_change=()):
        """Take the next record; only the steps `may_change` had ended and may have changed since."""
        assert record.history[: len(self.record.history)] == self.record.history
        known = {step.id for step in self.record.steps}
        added = [number(step) for step in record.steps if step.id not in known]
        assert all(each > self.highest for each in added)
        assert len({*added}) == len(added)
        self.highest = max([self.highest, *added])
        now = {step.id: step for step in record.steps}
        assert all(now.get(key) == step for key, step in self.ended.items() if key not in may_change)
        self.record = record
        self.ended = {step.id: step for step in record.steps if step.status not in {"pending", "in_progress"}}

    @precondition(lambda self: self.record.status == "in_progress" and next_step(self.record))
    @rule()
    def begin(self):
        self.executions += 1
        self.becomes(start(self.record, next_step(self.record).id))

    @precondition(lambda self: self.record.current)
    @rule()
    def succeed(self):
        self.becomes(complete(self.record, self.record.current.id))

    @precondition(lambda self: self.record.current)
    @rule()
    def crash(self):
        self.becomes(lose(self.record, self.record.current.id))

    @precondition(lambda self: self.record.status == "in_progress" and not self.record.current)
    @rule()
    def conflict(self):
        last = self.record.steps[-1].id
        resolved = with_rebase_step(self.record, conflict="a.py", at=NOON)
        assert (resolved is None) == (len(self.record.steps) == MAX_STEPS)
        self.becomes(resolved or self.record, may_change=[last])

    @precondition(lambda self: self.record.current)
    @rule(edits=st.lists(operations, max_size=3))
    def edit(self, edits):
        self.apply(json.dumps(edits).encode())

    @precondition(lambda self: self.record.current)
    @rule(
        kind=likely,
        index=st.just(-1) | st.integers(0, MAX_STEPS),
        steps=sound_steps,
        order=st.permutations(range(MAX_STEPS)),
    )
    def edit_what_is_there(self, kind, index, steps, order):
        """Ask about a step that exists, so that what is possible, or nearly so, is not rare."""
        target = {"target_step_id": self.record.steps[index % len(self.record.steps)].id}
        pending = [step.id for step in self.record.pending]
        asked = {
            "reorder": {"new_order": [pending[each] for each in order if each < len(pending)]},
            "skip": target,
            "add_after": target | {"new_steps": steps},
            "split": target | {"replacement_steps": steps},
            "restart": {"target_step_id": self.record.current.id, "new_description": "another way"},
            "edit_description": target | {"new_description": "something else"},
        }
        self.apply(json.dumps([{"operation": kind, "reason": "r"} | asked[kind]]).encode())

    @precondition(lambda self: self.record.current)
    @rule(content=st.binary(max_size=40) | st.text(max_size=40).map(str.encode), cut=st.integers(0, 60))
    def write_rubbish(self, content, cut):
        whole = json.dumps([{"operation": "skip", "target_step_id": "step-009", "reason": "r"}]).encode()
        self.apply(whole[:cut] + content)

    def apply(self, content):
        asking, asked = self.record.current, request(self.record.current.id, f"attempt-{self.executions}")
        outcome = apply_file(self.record, asked, content)
        match outcome:
            case EditsApplied(story=edited, resets_worktree=resets):
                assert resets == (edited.step(asking.id).restart_count > asking.restart_count)
                assert STEP_TYPES[asking.type].may_edit or edited == self.record
                if edited != self.record:
                    assert apply_file(edited, asked, content) == EditsKnown()
                self.becomes(edited)
            case EditsRejected(feedback=feedback) | RestartsExhausted(feedback=feedback):
                assert "were rejected" in feedback
                assert feedback.count("\n") < 10
                assert apply_file(self.record, asked, content) == outcome
            case EditsKnown():
                assert any("edit_hash" in entry.details for entry in self.record.history)

    @invariant()
    def mandatory_steps_are_there_and_the_final_review_is_last(self):
        kinds = [step.type for step in self.record.steps]
        assert kinds.count("final_review") == 1
        assert kinds[-1] == "final_review"
        assert "linting" in kinds
        assert not [
            step for step in self.record.steps if step.status == "skipped" and step.type in {"linting", kinds[-1]}
        ]

    @invariant()
    def ids_are_unique_steps_are_few_and_one_is_executed_at_a_time(self):
        assert len({step.id for step in self.record.steps}) == len(self.record.steps) <= MAX_STEPS
        assert [step.status for step in self.record.steps].count("in_progress") <= 1
        assert max(len(self.record.restart_reasons(step.id)) for step in self.record.steps) <= MAX_RESTARTS

    @invariant()
    def its_actions_let_one_step_run_at_a_time(self):
        specs = {step_key("US-001", step.id): step for step in self.record.steps}
        actions = [(each, specs[each.key].status) for each in step_actions(self.record)]
        done = {name for each, status in actions if status == "completed" for name in each.effects}
        ready = [each.key for each, status in actions if status != "completed" and done.issuperset(each.preconditions)]
        assert len(ready) == (1 if len(done) < len(actions) else 0), "no two share the worktree, and one always goes on"

    @invariant()
    def a_story_in_progress_can_always_go_on(self):
        if self.record.status == "in_progress":
            assert not {step.status for step in self.record.steps} & {"failed", "cancelled"}
            on = self.record.current or next_step(self.record)
            assert on or {step.status for step in self.record.steps} <= {"completed", "skipped"}
            if on:
                assert on.id in step_prompt(story_text, self.record, on.id, StepContext(files=FILES))

    def teardown(self):
        state = project([self.record], created_at=NOON, prd_file="prd.json")
        assert read_state(encode_state(state).decode(), name="workflow_state.json").state == state


story_text = TaskText(description="As a user ...", acceptance=("It works",))
WorkOnAStory.TestCase.settings = settings(max_examples=up_to(100), stateful_step_count=20)


class TestNoSequenceOfEditsBreaksAWorkflow(WorkOnAStory.TestCase):
    """DR-3, DR-4, DR-5, DR-6: in any order, valid or not."""
