"""Stories in the commands that show a run: a line each, with the steps only of those that are worked."""

import pytest
from inline_snapshot import snapshot

from builders import begin, make_run
from scaffold.cli.render.run_preview import RunPreview
from scaffold.cli.render.terminal.text_layout import Layout
from scaffold.core.plan import Plan
from scaffold.core.states import Cancelled, Completed, Failed, Landing, Running, Verifying
from scaffold.plan.source.task import SourceTask
from scaffold.plan.story.stories_goal import stories_goal
from scaffold.plan.text.file_format import write_plan
from scaffold.run.failures.attempt_end import block_unreachable_actions

STORIES = (
    SourceTask(id="US-1", title="Add one"),
    SourceTask(id="US-2", title="Add two"),
    SourceTask(id="US-3", title="Add three", depends_on=("US-2",)),
)


@pytest.fixture
def run(context):
    """A run whose first story is worked."""
    text = write_plan(Plan(goals=(stories_goal("prd", "", STORIES),)))
    made = begin(context, make_run(context, text))
    move(context, made, Running(), "US-1", "US-1/step-001")
    return made


def move(context, run, state, *keys):
    with context.store.transaction():
        for key in keys:
            context.store.actions.move(context.store.actions.by_key(run.id, key).id, state)


def test_status_has_titles_types_and_the_steps_of_what_is_worked(context, run, scaffold):
    """DR-8: ten lines a story would hide the rest."""
    shown = [line.split(maxsplit=3)[2:] for line in scaffold("status").out.splitlines() if " US-" in line[:20]]
    keys = [key for key, _ in shown]
    assert keys == ["US-1", *(f"US-1/step-{number:03d}" for number in range(1, 11)), "US-2", "US-3"]
    notes = dict(shown)
    assert notes["US-1"].startswith("Add one, ")
    assert notes["US-1/step-001"].startswith("context_gathering, ")
    assert notes["US-3"] == snapshot("Add three, waits for done:US-2")


def test_runs_counts_stories_instead_of_their_steps(context, run, scaffold):
    """DR-8: ten steps are one thing that lands."""
    for state in (Verifying(), Landing(), Completed()):
        move(context, run, state, "US-1/step-001")
    assert "0/3 landed" in scaffold("runs").out
    move(context, run, Completed(), "US-1")
    assert "1/3 landed" in scaffold("runs").out


def test_the_preview_has_a_line_for_each_story(context, run):
    """SC-8: with the number of its steps, also in the longest chain."""
    plan = Plan(goals=(stories_goal("prd", "", STORIES),))
    text = RunPreview(run, plan).text(Layout())
    assert "  US-1 (Add one, 10 steps) -> done:US-1\n  US-2 (Add two, 10 steps)" in text
    assert "longest chain US-2 (10 steps) -> US-3 (10 steps)" in text


def test_a_story_says_which_step_failed_it(context, run, scaffold):
    """DR-9: and what its plan lacks besides is not said."""
    move(context, run, Failed("the agent gave up"), "US-1/step-001")
    move(context, run, Failed("its children ended"), "US-1")
    out = scaffold("status").out
    assert "Add one, its step US-1/step-001 failed" in out
    assert "its children ended" not in out


def test_a_retry_says_what_it_cannot_do_again(context, run, scaffold):
    """DR-17: a step that the user stopped has ended for good."""
    goal = context.store.goals.for_run(run.id)[0]
    move(context, run, Cancelled(), "US-1/step-001")
    with context.store.transaction():
        block_unreachable_actions(context.store, goal.id)
    move(context, run, Failed("its children ended"), "US-1")
    with context.store.transaction():
        context.store.goals.move(goal.id, Failed("it cannot be reached"))
        context.store.runs.move(run.id, Failed("it cannot be reached"))
        context.store.runs.release(run.id, fence=run.fence)
    out = scaffold("retry", run.id).out
    assert "`US-1/step-001`" in out
