"""Read from the store the view of a goal that `plan.decide` decides on."""

from scaffold.core.model import Goal, Run
from scaffold.orchestrator.dispatch import slots_for
from scaffold.plan.decide import FailedPrimitive, GoalView, ReadyAction, RunningCompound
from scaffold.run.failures.ladder import attempts_allowed, has_planner, is_safety_refusal, replans_left
from scaffold.store.database import Store

MAX_HELD_BACK = 4
"""How many held-back actions are named; the first ones suffice."""


def read_goal_view(store: Store, run: Run, goal: Goal, *, thinking: bool = False) -> GoalView:
    """Return the state of `goal` for its supervisor's decision, with at most one ready action more than it can start.

    `thinking`: a planning turn of its agent is running.
    """
    shared = slots_for(store, run, goal)
    slots = shared.by_goal.get(goal.id, 0)
    # Without free slots nothing can start, so the collision rules are not asked.
    passed = shared.picker.look(goal.id, slots + 1) if shared.picker else None
    ready = store.actions.ready(goal.id, slots + 1) if passed is None else passed.free[: slots + 1]
    tally, compounds = store.actions.tally(goal.id), store.actions.open_compounds(goal.id)
    under_way = sum(tally.get(status, 0) for status in ("running", "verifying", "landing")) - len(compounds)
    return GoalView(
        unmet=store.facts.lacking(goal.id, goal.desired),
        ready=tuple(
            ReadyAction(each.id, each.key, each.kind, each.kind == "compound" and store.actions.has_children(each.id))
            for each in ready
        ),
        held_back=tuple(passed.held_back[:MAX_HELD_BACK]) if passed else (),
        compounds=tuple(
            RunningCompound(
                id=each.action.id,
                key=each.action.key,
                open_children=each.open_children,
                unmet_effects=each.unmet_effects,
                is_story=each.action.method == "story",
            )
            for each in compounds
        ),
        # Until a stale fact is rechecked, the goal must neither fail nor complete for lack of it.
        running=under_way + len(store.facts.unchecked_stale(goal.id)),
        # The tally is cheap for any plan; the other two are read only if the tally says that they are not empty.
        waiting=store.actions.waiting(goal.id) if tally.get("blocked") else 0,
        exhausted=_exhausted_actions(store, run, goal) if tally.get("failed") else (),
        slots=slots,
        replans_left=replans_left(store, run, goal.id, failed=bool(tally.get("failed"))),
        can_decompose=run.settings.planning.planner,
        # Without a planner the plan is final: a dead end fails the run, and its user may retry.
        asks_human=has_planner(store, run, goal.id, failed=bool(tally.get("failed"))),
        planner_busy=thinking,
    )


def _exhausted_actions(store: Store, run: Run, goal: Goal) -> tuple[FailedPrimitive, ...]:
    return tuple(
        FailedPrimitive(
            id=action.id,
            key=action.key,
            parent=action.parent_id,
            is_step=action.method == "story",
            refused=any(map(is_safety_refusal, store.attempts.for_action(action.id)[-1:])),
            too_large=store.actions.failures(action.id) >= attempts_allowed(run, action),
        )
        for action in store.actions.unhandled_failures(goal.id)
    )
