"""Replacing the plan of a run in progress: proven facts and started actions stay, failed actions need a change."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from scaffold.core.ids import ActionKey
from scaffold.core.plan import ActionSpec, Finding, GoalSpec, Plan
from scaffold.plan.analysis.lint import lint
from scaffold.plan.graph.readiness import DEAD_STATUSES, blocked_by_failure
from scaffold.plan.graph.ready_queue import OPEN_STATUSES
from scaffold.plan.progress import STARTED_STATUSES, PlanProgress

RepairErrorCode = Literal["goal-changed", "begun-changed", "begun-left-out", "failed-unchanged"]

_Placed = tuple[str, ActionSpec]
"""The name of the action's goal, and the action."""


class PlanRepair(Struct, frozen=True, kw_only=True):
    """The effect of replacing a plan; keys are in the order of the plan they come from."""

    plan: Plan
    """The new plan, with the goal states and the started actions of the old one."""
    progress: PlanProgress
    """Progress after the replacement: kept actions and facts are unchanged, changed and added actions pending."""
    kept: tuple[ActionKey, ...]
    """Actions with the same key, content and goal in both plans, and all started actions."""
    changed: tuple[ActionKey, ...]
    """Actions with the same key but other content or another goal; to be done again."""
    added: tuple[ActionKey, ...]
    dropped: tuple[ActionKey, ...]
    """Actions of the old plan that are no longer needed; never a started one."""
    findings: tuple[Finding, ...]
    """Changes the new plan may not make, then lint's findings on the remaining work, given the facts that hold."""

    @property
    def valid(self) -> bool:
        """True if the new plan may replace the old one and can reach its goals from the current progress."""
        return not any(finding.severity == "error" for finding in self.findings)


def repair_plan(old: Plan, new: Plan, *, progress: PlanProgress) -> PlanRepair:
    """Return the result of replacing `old` at its current `progress` by `new`, a plan for the same goals.

    Started actions stay unchanged: leaving them out of `new` is allowed, changing them is an error, since new work
    needs a new key. Goal states stay, too. A failed action stays failed unless it is changed; blocked ones become
    pending unless a failure still blocks them; a completed compound runs again if it gets an unfinished child.
    """
    before, new_actions = _placed(old), _placed(new)
    started = frozenset(key for key in before if progress.status(key) in STARTED_STATUSES)
    plan = _merged(old, new, before, started)
    after = _placed(plan)
    kept = tuple(key for key, entry in before.items() if after.get(key) == entry)
    now = settled_progress(plan, PlanProgress(statuses=_kept_statuses(kept, progress), facts=progress.facts))
    return PlanRepair(
        plan=plan,
        progress=now,
        kept=kept,
        changed=tuple(key for key, entry in after.items() if key in before and before[key] != entry),
        added=tuple(key for key in after if key not in before),
        dropped=tuple(key for key in before if key not in after),
        findings=(
            *_goals_changed(old, new),
            *_started_changed(((key, before[key]) for key in before if key in started), new_actions, progress),
            *_failed_unchanged(((key, before[key]) for key in kept if key in new_actions), now),
            *lint(without_dead_actions(plan, now), now.facts).findings,
        ),
    )


def _placed(plan: Plan) -> dict[ActionKey, _Placed]:
    """Return the actions by key; the first of several with the same key, which `lint` rejects."""
    actions: dict[ActionKey, _Placed] = {}
    for goal in plan.goals:
        for action in goal.actions:
            actions.setdefault(action.key, (goal.name, action))
    return actions


def _kept_statuses(kept: Iterable[ActionKey], progress: PlanProgress) -> dict[ActionKey, str]:
    return {key: progress.statuses[key] for key in kept if key in progress.statuses}


def _merged(old: Plan, new: Plan, before: Mapping[ActionKey, _Placed], started: frozenset[ActionKey]) -> Plan:
    """Return `old`'s goals with `new`'s actions; started ones unchanged, and put first if `new` leaves them out."""
    new_goals = {goal.name: goal for goal in reversed(new.goals)}
    goals = [replace(new_goals.get(goal.name, goal), goal_state=goal.goal_state) for goal in old.goals]
    new_actions = {action.key for goal in goals for action in goal.actions}
    needed = {key for key in _with_parents(started, before) if key in started or key not in new_actions}
    return Plan(goals=tuple(_with_started(goal, before, started, needed) for goal in goals))


def _with_parents(keys: Iterable[ActionKey], before: Mapping[ActionKey, _Placed]) -> set[ActionKey]:
    """Return `keys` with all their ancestors, without which their position in the plan would be lost."""
    found: set[ActionKey] = set()
    above = list(keys)
    while above:
        key = above.pop()
        if key in before and key not in found:
            found.add(key)
            above.extend(filter(None, [before[key][1].parent]))
    return found


def _with_started(
    goal: GoalSpec, before: Mapping[ActionKey, _Placed], started: frozenset[ActionKey], needed: set[ActionKey]
) -> GoalSpec:
    old_actions = {key: action for key, (name, action) in before.items() if name == goal.name}
    new_keys = {action.key for action in goal.actions}
    left_out = [action for key, action in old_actions.items() if key in needed and key not in new_keys]
    # A started action that the new plan moved to another goal stays in its old one.
    in_new = [
        old_actions[action.key] if action.key in started else action
        for action in goal.actions
        if action.key not in started or action.key in old_actions
    ]
    return replace(goal, actions=(*left_out, *in_new))


def settled_progress(plan: Plan, progress: PlanProgress) -> PlanProgress:
    """Return the progress of `plan` with unblocked actions pending, and completed compounds with new work running."""
    # Blocks are computed anew: the change may have removed the failed action, or added another provider.
    freed = replace(progress, statuses={key: was for key, was in progress.statuses.items() if was != "blocked"})
    statuses = dict(freed.statuses)
    for goal in plan.goals:
        lost = map(ActionKey, blocked_by_failure(freed.nodes(goal), progress.held(goal.name)))
        statuses |= {key: "blocked" for key in lost if progress.status(key) == "blocked"}
    parents = {action.key: action.parent for action in plan.actions}
    for key in [key for key in parents if statuses.get(key, "pending") in OPEN_STATUSES]:
        above = parents[key]
        # A compound whose children are not all done is not done, and neither are those above it.
        while above is not None and statuses.get(above) == "completed":
            statuses[above] = "running"
            above = parents.get(above)
    return replace(progress, statuses=statuses)


def without_dead_actions(plan: Plan, progress: PlanProgress) -> Plan:
    """Return the plan without actions that can no longer make anything true; their started children lose the parent."""
    # Blocked actions stay: the findings name them, and they run again once the failure is repaired.
    dead = {action.key for action in plan.actions if progress.status(action.key) in DEAD_STATUSES - {"blocked"}}
    return Plan(
        goals=tuple(
            replace(
                goal,
                actions=tuple(
                    replace(action, parent=None)
                    if action.parent in dead and progress.status(action.key) in STARTED_STATUSES
                    else action
                    for action in goal.actions
                    if action.key not in dead
                ),
            )
            for goal in plan.goals
        )
    )


def _goals_changed(old: Plan, new: Plan) -> Iterator[Finding]:
    new_goals = {goal.name: goal for goal in reversed(new.goals)}
    known = {goal.name for goal in old.goals}
    for goal in old.goals:
        if goal.name not in new_goals:
            fix = "Include the goal with the actions that are left to do."
            yield _finding("goal-changed", goal.name, None, f"the new plan leaves goal `{goal.name}` out", fix)
        elif set(new_goals[goal.name].goal_state) != set(goal.goal_state):
            fix = f"Write `goal_state: [{', '.join(goal.goal_state)}]`; only actions may change."
            message = f"the new plan changes the goal state of goal `{goal.name}`"
            yield _finding("goal-changed", goal.name, None, message, fix)
    for name in new_goals:
        if name not in known:
            fix = "Put its actions into an existing goal; a new goal needs its own run."
            yield _finding("goal-changed", name, None, f"the new plan adds goal `{name}`", fix)


def _started_changed(
    started: Iterable[tuple[ActionKey, _Placed]], new_actions: Mapping[ActionKey, _Placed], progress: PlanProgress
) -> Iterator[Finding]:
    for key, entry in started:
        status = progress.status(key)
        if key not in new_actions:
            message = f"action `{key}` is {status}: it stays, although the new plan leaves it out"
            fix = f"Include `{key}` unchanged, or leave it out if that is intended."
            yield _finding("begun-left-out", entry[0], key, message, fix, severity="warning")
        elif new_actions[key] != entry:
            message = f"action `{key}` is {status}: it stays unchanged, but the new plan changes it"
            fix = f"Include `{key}` unchanged; give new work its own key."
            yield _finding("begun-changed", entry[0], key, message, fix)


def _failed_unchanged(kept: Iterable[tuple[ActionKey, _Placed]], progress: PlanProgress) -> Iterator[Finding]:
    for key, (goal, _) in kept:
        if progress.status(key) == "failed":
            message = f"action `{key}` failed and is unchanged: it is not retried"
            fix = f"Change `{key}`, leave it out, or retry it with a new approach."
            yield _finding("failed-unchanged", goal, key, message, fix, severity="warning")


def _finding(
    code: RepairErrorCode,
    goal: str,
    action: ActionKey | None,
    message: str,
    fix: str,
    *,
    severity: Literal["error", "warning"] = "error",
) -> Finding:
    return Finding(code=code, severity=severity, goal=goal, action=action, message=message, fix=fix)
