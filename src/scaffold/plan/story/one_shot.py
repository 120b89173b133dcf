"""One request as a story, without a PRD."""

from scaffold.core.ids import ActionKey
from scaffold.core.plan import Plan
from scaffold.plan.source.single_action import request_title
from scaffold.plan.source.task import SourceTask
from scaffold.plan.story.stories_goal import stories_goal
from scaffold.plan.text.parse_tree import START

ONE_SHOT = "one-shot"
"""The name of the goal."""
STORY = ActionKey("US-001")
"""The id of the only story, as a PRD would number it."""


def one_shot_plan(request: str) -> Plan:
    """Return a plan with one story in its default steps: the request's first line is its title, all of it its text."""
    title = request_title(request)
    story = SourceTask(id=STORY, title=title, description=request.strip(), position=START)
    return Plan(goals=(stories_goal(ONE_SHOT, title, (story,)),))
