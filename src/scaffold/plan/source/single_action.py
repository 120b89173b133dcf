"""A plan of one action, for requests that need no planner."""

from scaffold.core.ids import ActionKey, Assertion
from scaffold.core.plan import ActionSpec, GoalSpec, Plan

NAME = "task"
DONE = Assertion("done")
MAX_TITLE_CHARS = 200
"""Length limit of the goal's description; the action's description is the whole request."""


def single_action_plan(request: str) -> Plan:
    """Return a plan with one action, described by the whole request; the request must not be empty."""
    action = ActionSpec(key=ActionKey(NAME), description=request, effects=(DONE,))
    return Plan(goals=(GoalSpec(name=NAME, description=request_title(request), goal_state=(DONE,), actions=(action,)),))


def request_title(request: str) -> str:
    """Return the first line of a request, cut to `MAX_TITLE_CHARS`."""
    first = request.strip().partition("\n")[0].strip()
    return first if len(first) <= MAX_TITLE_CHARS else f"{first[: MAX_TITLE_CHARS - 1]}…"
