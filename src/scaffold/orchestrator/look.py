"""From the store to the view that `plan.decide` decides on."""

from scaffold.core.model import Action, Goal, Run
from scaffold.orchestrator.dispatch import free_slots
from scaffold.plan.decide import CompoundView, Exhausted, ReadyAction, View
from scaffold.store.database import Store


def look(store: Store, run: Run, goal: Goal, *, thinking: bool = False) -> View:
    """Return what the supervisor of `goal` needs to know, no more than it can act on.

    `thinking` is whether its agent is at work just now.
    """
    slots = free_slots(store, run, goal)
    tally = store.actions.tally(goal.id)
    return View(
        unmet=store.goals.unmet(goal.id),
        ready=tuple(_ready(store, action) for action in store.actions.ready(goal.id, slots + 1)),
        compounds=tuple(
            CompoundView(
                id=each.action.id,
                key=each.action.key,
                open_children=each.open_children,
                unmet_effects=each.unmet_effects,
            )
            for each in store.actions.open_compounds(goal.id)
        ),
        running=len(store.actions.running(goal.id)) + len(store.facts.unsettled(goal.id)),
        pending=tally.get("pending", 0),
        waiting=store.actions.waiting(goal.id) if tally.get("blocked") else 0,
        exhausted=_exhausted(store, goal) if tally.get("failed") else (),
        slots=slots,
        replans_left=_replans_left(store, run, goal),
        can_decompose=run.settings.planner,
        thinking=thinking,
    )


def _replans_left(store: Store, run: Run, goal: Goal) -> int:
    """Return how often the goal may still be replanned without anything new shown in it."""
    if not run.settings.planner:
        return 0
    return max(0, run.settings.replans - store.turns.fruitless_of_goal(goal.id, "replan"))


def _ready(store: Store, action: Action) -> ReadyAction:
    children = action.kind == "compound" and store.actions.has_children(action.id)
    return ReadyAction(id=action.id, key=action.key, kind=action.kind, children=children)


def _exhausted(store: Store, goal: Goal) -> tuple[Exhausted, ...]:
    return tuple(Exhausted(action.key, action.parent_id) for action in store.actions.exhausted(goal.id))
