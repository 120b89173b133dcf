"""Stories and steps as actions of the plan."""

from msgspec.structs import replace

from scaffold.core.plan import GoalSpec, Plan, TaskText, text_fields
from scaffold.core.states import Blocked, Cancelled, Completed, Failed, Landing, Pending, Running, Skipped, Verifying
from scaffold.plan.analysis.lint import lint
from scaffold.plan.story.actions import step_actions, step_status, story_action, story_status
from support.stories import apply, claimed, op, story, working_on


def test_stories_are_actions_that_need_each_other_and_steps_need_the_one_before():
    """SC-22, DR-3: and the plan is sound."""
    more = {"description": "As a user ...", "acceptance": ("It adds up",), "notes": "Mind the cache"}
    given = [story("US-000"), story("US-001", depends_on=("US-000",), **more)]
    compounds = [story_action(each) for each in given]
    assert (compounds[1].key, compounds[1].kind, compounds[1].title) == ("US-001", "compound", "Story US-001")
    assert text_fields(compounds[1]) == text_fields(
        TaskText(title="Story US-001", acceptance=("It adds up",), description="As a user ...", notes="Mind the cache")
    )
    assert (compounds[1].preconditions, compounds[1].effects) == (("done:US-000",), ("done:US-001",))
    steps = tuple(step_actions(claimed()))
    assert {(step.workspace, step.kind) for step in steps} == {("parent", "primitive")}
    assert (steps[1].preconditions, steps[1].effects) == (("done:US-001/step-001",), ("done:US-001/step-002",))
    of_other = tuple(step_actions(claimed("US-000")))
    actions = (compounds[0], *of_other, compounds[1], *steps)
    goal = GoalSpec(name="prd", goal_state=("done:US-000", "done:US-001"), actions=actions)
    assert not [each for each in lint(Plan(goals=(goal,))).findings if each.severity == "error"]


def test_nothing_waits_for_a_skipped_step():
    """DR-5."""
    record = apply(working_on("step-002"), "step-002", op("skip", "step-003")).story
    keys = {step.key: step.preconditions for step in step_actions(record)}
    assert "US-001/step-003" not in keys
    assert keys["US-001/step-004"] == ("done:US-001/step-002",)


def test_no_step_begins_before_one_that_was_cancelled_whatever_is_edited_meanwhile():
    """DR-4, SC-17: the running step changes the story, and a later one was cancelled by the user."""
    record = working_on("step-002")
    cancelled = replace(
        record, steps=(*record.steps[:2], replace(record.steps[2], status="cancelled"), *record.steps[3:])
    )
    keys = {step.key: step.preconditions for step in step_actions(cancelled)}
    assert keys["US-001/step-002"] == ("done:US-001/step-001",)
    assert keys["US-001/step-003"] == ("done:US-001/step-002",)
    assert keys["US-001/step-004"] == ("done:US-001/step-003",)


STATES = {
    Pending(): ("pending", "unclaimed"),
    Blocked("waits_for:x"): ("pending", "blocked"),
    Running(): ("in_progress", "in_progress"),
    Verifying(): ("in_progress", "in_progress"),
    Landing(): ("in_progress", "in_progress"),
    Completed(): ("completed", "completed"),
    Skipped("r"): ("skipped", "failed"),
    Failed("r"): ("failed", "failed"),
    Cancelled(): ("cancelled", "failed"),
}


def test_each_state_of_an_action_is_a_status_of_a_step_and_of_a_story():
    """DR-8."""
    assert {state: (step_status(state), story_status(state)) for state in STATES} == STATES


def test_a_step_that_was_ended_from_outside_counts_as_cancelled():
    """DR-2: a timeout is no failure of the step."""
    statuses = {"timeout": "cancelled", "cancelled": "cancelled", "lost": "failed"}
    assert {outcome: step_status(Failed("r"), outcome) for outcome in statuses} == statuses
