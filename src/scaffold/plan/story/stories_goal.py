"""A PRD as a goal: each story a compound, its steps the primitives of it."""

from collections import Counter
from collections.abc import Sequence

from msgspec import structs

from scaffold.core.errors import PlanInvalid
from scaffold.core.ids import ActionKey
from scaffold.core.plan import Finding, GoalSpec, Plan
from scaffold.plan.source.dag import done_assertion
from scaffold.plan.source.prd import by_priority
from scaffold.plan.source.prompt_loop import request_title
from scaffold.plan.source.task import SourceTask
from scaffold.plan.story.actions import new_record, step_actions, story_action
from scaffold.plan.story.record import default_workflow
from scaffold.plan.text.parse_tree import START

ONE_SHOT = "one-shot"
"""The name of the goal."""
STORY = ActionKey("US-001")
"""The id of the only story, as a PRD would number it."""


def stories_goal(name: str, description: str, stories: Sequence[SourceTask]) -> GoalSpec:
    """Return the goal that is reached when all stories are done, in the order in which they are to be worked.

    Stories that are done are left out. Raises PlanInvalid if all are, or if an id is also a step's.
    """
    # A story that passes is neither worked nor waited for.
    passed = {story.id for story in stories if story.done}
    left = tuple(
        structs.replace(story, depends_on=tuple(each for each in story.depends_on if each not in passed))
        for story in by_priority(stories)
        if story.id not in passed
    )
    if not left:
        raise PlanInvalid(f"all stories of {name} pass already", "Set `passes` to false for those to be worked again.")
    records = ((story, structs.replace(new_record(story), steps=default_workflow())) for story in left)
    actions = tuple(action for story, record in records for action in (story_action(story), *step_actions(record)))
    # A story called `US-1/step-001` would be taken for a step of `US-1`.
    counts = Counter(action.key for action in actions)
    if findings := tuple(
        Finding(
            code="duplicate-key",
            severity="error",
            action=story.id,
            message=f"the story `{story.id}` has the key of a step of another story",
            fix="Give it another id.",
            line=story.position.line,
            column=story.position.column,
        )
        for story in left
        if counts[story.id] > 1
    ):
        raise PlanInvalid(findings[0].message, findings[0].fix, findings)
    return GoalSpec(
        name=name,
        description=description,
        goal_state=tuple(done_assertion(story.id) for story in left),
        actions=actions,
    )


def one_shot_plan(request: str) -> Plan:
    """Return a plan with one story in its default steps: the request's first line is its title, all of it its text."""
    title = request_title(request)
    story = SourceTask(id=STORY, title=title, description=request.strip(), position=START)
    return Plan(goals=(stories_goal(ONE_SHOT, title, (story,)),))
