"""A request that is one action: for what is not worth a planner."""

from scaffold.core.ids import Assertion, Key
from scaffold.core.plan import ActionSpec, GoalSpec, Plan

NAME = "task"
DONE = Assertion("done")
LONGEST_TITLE = 200
"""Characters of the request that the goal is described by; the action has all of it."""


def single(request: str) -> Plan:
    """Return the plan whose one action is the whole request; it must have words."""
    action = ActionSpec(key=Key(NAME), description=request, effects=(DONE,))
    return Plan(goals=(GoalSpec(name=NAME, description=_title(request), goal_state=(DONE,), actions=(action,)),))


def _title(request: str) -> str:
    first = request.strip().partition("\n")[0].strip()
    return first if len(first) <= LONGEST_TITLE else f"{first[: LONGEST_TITLE - 1]}…"
