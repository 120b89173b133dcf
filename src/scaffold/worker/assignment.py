"""What one worker process is to do, read from the store."""

from typing import Final

from msgspec import Struct

from scaffold.core.errors import StaleFence
from scaffold.core.ids import Assertion, AttemptId
from scaffold.core.model import Action, Attempt, Fact, Goal, Run
from scaffold.store.database import Store

TESTING: Final = "testing"
"""The role of who verifies by checks of its own or by those there are, not by a verdict."""


class Assignment(Struct, frozen=True, kw_only=True):
    """An attempt with all it belongs to."""

    run: Run
    goal: Goal
    action: Action
    attempt: Attempt
    parent: Action | None = None
    """The compound it is a part of."""
    prerequisites: tuple[Action, ...] = ()
    """The actions whose effects are its preconditions, or those of a compound it is in, in plan order."""
    facts: tuple[Fact, ...] = ()
    """What holds of those preconditions, and of what the goal desires."""

    @property
    def grounds(self) -> tuple[Fact, ...]:
        """The facts that its prerequisites have shown: what it builds on, or judges."""
        shown = {effect for action in self.prerequisites for effect in action.effects}
        return tuple(fact for fact in self.facts if fact.assertion in shown)


def read_assignment(store: Store, attempt_id: AttemptId) -> Assignment:
    """Read everything an attempt needs; raises StaleFence if it is no longer there to be done."""
    attempt = store.attempts.get(attempt_id)
    action = store.actions.get(attempt.action_id) if attempt else None
    goal = store.goals.get(action.goal_id) if action else None
    run = store.runs.get(action.run_id) if action else None
    if attempt is None or action is None or goal is None or run is None or attempt.status != "queued":
        raise StaleFence(f"attempt {attempt_id} is not waiting for a worker", "Nothing to do: somebody else has it.")
    needs = needed_by(store, action)
    before = {each.id: each for need in needs for each in store.actions.providers(goal.id, need)}
    relevant = {*needs, *goal.desired}
    return Assignment(
        run=run,
        goal=goal,
        action=action,
        attempt=attempt,
        parent=store.actions.get(action.parent_id) if action.parent_id else None,
        prerequisites=tuple(sorted(before.values(), key=lambda each: each.position)),
        facts=tuple(f for f in store.facts.of_goal(goal.id) if f.state == "holds" and f.assertion in relevant),
    )


def needed_by(store: Store, action: Action) -> tuple[Assertion, ...]:
    """Return the preconditions of an action, its own first, then those of the compounds it is in."""
    above = [store.actions.get(each) for each in store.actions.lineage(action.id)]
    return tuple(dict.fromkeys(need for each in above if each is not None for need in each.preconditions))
