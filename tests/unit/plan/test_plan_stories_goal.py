"""A PRD as a goal: stories as compounds with the ten steps, by priority, without those that pass."""

import pytest
from inline_snapshot import snapshot

from scaffold.core.errors import PlanInvalid
from scaffold.core.plan import Plan
from scaffold.plan.analysis.lint import lint
from scaffold.plan.source.task import SourceTask
from scaffold.plan.story.step_type import DEFAULT_WORKFLOW, step_type
from scaffold.plan.story.stories_goal import one_shot_plan, stories_goal


def story(key, **fields):
    return SourceTask(id=key, title=f"Title of {key}", **fields)


def test_a_story_is_a_compound_whose_last_step_makes_it_done():
    """DR-2, DR-3, SC-22: ten steps in the story's worktree, each needs the one before it."""
    goal = stories_goal("prd", "All of it.", [story("US-1", acceptance=("it works",), notes="See x.")])
    compound, *steps = goal.actions
    assert (compound.key, compound.kind, compound.method, compound.title) == (
        "US-1",
        "compound",
        "story",
        "Title of US-1",
    )
    assert (compound.acceptance, compound.notes, compound.effects) == (("it works",), "See x.", ("done:US-1",))
    assert [each.role for each in steps] == [*DEFAULT_WORKFLOW]
    assert [each.key for each in steps] == [f"US-1/step-{number:03d}" for number in range(1, 11)]
    assert {(each.parent, each.workspace, each.method) for each in steps} == {("US-1", "parent", "story")}
    assert [each.preconditions for each in steps[:2]] == [(), ("done:US-1/step-001",)]
    assert steps[-1].effects == ("done:US-1",)
    assert goal.goal_state == ("done:US-1",)
    assert lint(Plan(goals=(goal,))).findings == ()


def test_stories_are_worked_by_priority_and_wait_for_those_that_are_left():
    """DR-1: the lowest first; what passes is neither worked nor waited for."""
    stories = [
        story("c"),
        story("b", priority=2, depends_on=("done", "a")),
        story("a", priority=1.5),
        story("done", done=True),
    ]
    compounds = [each for each in stories_goal("prd", "", stories).actions if each.kind == "compound"]
    assert [each.key for each in compounds] == ["a", "b", "c"]
    assert [each.preconditions for each in compounds] == [(), ("done:a",), ()]


def test_without_a_story_that_is_left_there_is_nothing_to_do():
    with pytest.raises(PlanInvalid) as refusal:
        stories_goal("prd", "", [story("a", done=True)])
    assert refusal.value.in_full == snapshot(
        "all stories of prd pass already. Set `passes` to false for those to be worked again."
    )


def test_a_type_of_step_is_found_by_its_name():
    assert step_type("coding") == "coding"
    with pytest.raises(LookupError):
        step_type("implementation")


def test_an_id_that_is_the_key_of_a_step_is_refused_with_its_position():
    with pytest.raises(PlanInvalid) as refusal:
        stories_goal("prd", "", [story("US-1"), story("US-1/step-001")])
    (finding,) = refusal.value.findings
    assert (finding.action, finding.line) == ("US-1/step-001", 1)


def test_one_request_is_a_story_in_the_default_steps():
    """DR-14: its first line is the title, all of it the description; there are no criteria."""
    plan = one_shot_plan("  Fix the lamp\n\nIt is off.\n")
    (goal,) = plan.goals
    assert (goal.name, goal.description, goal.goal_state) == ("one-shot", "Fix the lamp", ("done:US-001",))
    story = goal.actions[0]
    assert (story.key, story.title, story.description, story.acceptance) == snapshot(
        ("US-001", "Fix the lamp", "Fix the lamp\n\nIt is off.", ())
    )
    assert len(goal.actions) == 11
