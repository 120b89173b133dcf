"""The errors of the stories of one goal: what is no step, and so could not be worked as one."""

from collections.abc import Iterator

from scaffold.core.plan import ActionSpec, Finding, GoalSpec
from scaffold.plan.analysis.goal_errors import goal_error
from scaffold.plan.message_text import quoted
from scaffold.plan.story.actions import step_key
from scaffold.plan.story.record import STEP_ID, StepId
from scaffold.plan.story.step_type import STEP_TYPES

_FIX = "Only its own agents change the steps of a story; add other actions beside it."


def story_errors(goal: GoalSpec) -> Iterator[Finding]:
    """Yield an error for each story without a final review, and for each child of a story that is not a step of it."""
    stories = {each.key: each for each in goal.actions if each.kind == "compound" and each.method == "story"}
    reviewed = set()
    for action in goal.actions:
        story = stories.get(action.parent) if action.parent else None
        if story is None:
            continue
        if why := _why_no_step(action):
            message = f"action `{action.key}` is no step of the story `{story.key}`: {why}"
            yield goal_error("malformed-story", goal, action.key, message, _FIX)
        elif action.role == "final_review":
            reviewed.add(story.key)
    for key in stories:
        if key not in reviewed:
            message = f"the story `{key}` has no step of type `final_review`, which lands it"
            fix = "Write it with `scaffold plan --prd`, or without `method`."
            yield goal_error("malformed-story", goal, key, message, fix)


def _why_no_step(action: ActionSpec) -> str:
    """Return why an action cannot be a step of its parent; empty if it can."""
    own = action.key.rpartition("/")[2]
    if action.parent is None or STEP_ID.fullmatch(own) is None or action.key != step_key(action.parent, StepId(own)):
        return f"its key is not like {quoted(f'{action.parent}/step-001')}"
    if action.role not in STEP_TYPES:
        return f"its role {quoted(action.role)} is no type of step"
    if (action.kind, action.workspace, action.method) != ("primitive", "parent", "story"):
        return "it has to be a primitive with `workspace: parent` and `method: story`"
    return ""
