"""Putting a new plan in the place of one that is under way: what holds is kept, and a retry needs something new."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from scaffold.core.ids import Key
from scaffold.core.plan import ActionSpec, Finding, GoalSpec, Plan
from scaffold.plan.agenda import OPEN
from scaffold.plan.lint import lint
from scaffold.plan.readiness import DEAD, stranded
from scaffold.plan.standing import BEGUN, Standing

Code = Literal["goal-changed", "begun-changed", "begun-left-out", "failed-unchanged"]

_Placed = tuple[str, ActionSpec]
"""An action with the name of its goal."""


class Repair(Struct, frozen=True, kw_only=True):
    """What a new plan does to the one under way; keys are in the order of the plan they come from."""

    plan: Plan
    """The new plan, with the goals and the begun actions of the old one."""
    standing: Standing
    """Where it stands: kept actions as they were, changed and added ones pending, the facts as they are."""
    kept: tuple[Key, ...]
    """The same key with the same content in the same goal, and begun actions in any case."""
    changed: tuple[Key, ...]
    """The same key with another content or in another goal: to be done anew."""
    added: tuple[Key, ...]
    dropped: tuple[Key, ...]
    """Actions of the old plan that are not to be done any more; never one that was begun."""
    findings: tuple[Finding, ...]
    """What the new plan may not do, then what `lint` says of what is left to do, given the facts that hold."""

    @property
    def valid(self) -> bool:
        """Whether the repaired plan may take the old one's place, and can reach its goals from where it stands."""
        return not any(finding.severity == "error" for finding in self.findings)


def repair(old: Plan, new: Plan, *, standing: Standing) -> Repair:
    """Return what comes of `old`, which is where `standing` says, if `new`, for the same goals, takes its place.

    Actions that were begun stay as they are, whatever `new` says of them: to leave them out is allowed, to change them
    is an error, since new work needs a key of its own. The desired states of the goals stay, too. A failed action stays
    failed unless it is changed; blocked ones are pending again unless a failure still keeps them from running; a
    completed compound runs again if it gets a child that is not done.
    """
    before, asked = _placed(old), _placed(new)
    begun = frozenset(key for key in before if standing.status(key) in BEGUN)
    plan = _merged(old, new, before, begun)
    after = _placed(plan)
    kept = tuple(key for key, placed in before.items() if after.get(key) == placed)
    now = settled(plan, Standing(statuses=_of(kept, standing), facts=standing.facts))
    return Repair(
        plan=plan,
        standing=now,
        kept=kept,
        changed=tuple(key for key, placed in after.items() if key in before and before[key] != placed),
        added=tuple(key for key in after if key not in before),
        dropped=tuple(key for key in before if key not in after),
        findings=(
            *_goals_changed(old, new),
            *_begun_touched(((key, before[key]) for key in before if key in begun), asked, standing),
            *_failed_unchanged(((key, before[key]) for key in kept if key in asked), now),
            *lint(living(plan, now), now.facts).findings,
        ),
    )


def _placed(plan: Plan) -> dict[Key, _Placed]:
    """Return the actions by key; of several with one key, which `lint` refuses, the first."""
    placed: dict[Key, _Placed] = {}
    for goal in plan.goals:
        for action in goal.actions:
            placed.setdefault(action.key, (goal.name, action))
    return placed


def _of(kept: Iterable[Key], standing: Standing) -> dict[Key, str]:
    return {key: standing.statuses[key] for key in kept if key in standing.statuses}


def _merged(old: Plan, new: Plan, before: Mapping[Key, _Placed], begun: frozenset[Key]) -> Plan:
    """Return the goals of `old` with the actions of `new`; begun ones as they were, first if `new` leaves them out."""
    offered = {goal.name: goal for goal in reversed(new.goals)}
    goals = [replace(offered.get(goal.name, goal), goal_state=goal.goal_state) for goal in old.goals]
    asked = {action.key for goal in goals for action in goal.actions}
    needed = {key for key in _with_parents(begun, before) if key in begun or key not in asked}
    return Plan(goals=tuple(_with_begun(goal, before, begun, needed) for goal in goals))


def _with_parents(keys: Iterable[Key], before: Mapping[Key, _Placed]) -> set[Key]:
    """Return `keys` with all their parents, without which their place would be unknown."""
    found: set[Key] = set()
    above = list(keys)
    while above:
        key = above.pop()
        if key in before and key not in found:
            found.add(key)
            above.extend(filter(None, [before[key][1].parent]))
    return found


def _with_begun(goal: GoalSpec, before: Mapping[Key, _Placed], begun: frozenset[Key], needed: set[Key]) -> GoalSpec:
    mine = {key: action for key, (name, action) in before.items() if name == goal.name}
    stated = {action.key for action in goal.actions}
    left_out = [action for key, action in mine.items() if key in needed and key not in stated]
    as_asked = [
        mine[action.key] if action.key in begun else action
        for action in goal.actions
        if action.key not in begun or action.key in mine
    ]
    return replace(goal, actions=(*left_out, *as_asked))


def settled(plan: Plan, standing: Standing) -> Standing:
    """Return where `plan` stands: the blocked are freed unless they are stranded, and what gets new work runs again."""
    freed = replace(standing, statuses={key: was for key, was in standing.statuses.items() if was != "blocked"})
    statuses = dict(freed.statuses)
    for goal in plan.goals:
        lost = map(Key, stranded(freed.nodes(goal), standing.held(goal.name)))
        statuses |= {key: "blocked" for key in lost if standing.status(key) == "blocked"}
    parents = {action.key: action.parent for action in plan.actions}
    for key in [key for key in parents if statuses.get(key, "pending") in OPEN]:
        above = parents[key]
        while above is not None and statuses.get(above) == "completed":
            statuses[above] = "running"
            above = parents.get(above)
    return replace(standing, statuses=statuses)


def living(plan: Plan, standing: Standing) -> Plan:
    """Return the plan without those that make nothing true any more; what they left begun stands by itself."""
    dead = {action.key for action in plan.actions if standing.status(action.key) in DEAD - {"blocked"}}
    return Plan(
        goals=tuple(
            replace(
                goal,
                actions=tuple(
                    replace(action, parent=None)
                    if action.parent in dead and standing.status(action.key) in BEGUN
                    else action
                    for action in goal.actions
                    if action.key not in dead
                ),
            )
            for goal in plan.goals
        )
    )


def _goals_changed(old: Plan, new: Plan) -> Iterator[Finding]:
    offered = {goal.name: goal for goal in reversed(new.goals)}
    known = {goal.name for goal in old.goals}
    for goal in old.goals:
        if goal.name not in offered:
            fix = "Write the goal down with the actions that are left to do."
            yield _finding("goal-changed", goal.name, None, f"the new plan leaves goal `{goal.name}` out", fix)
        elif set(offered[goal.name].goal_state) != set(goal.goal_state):
            fix = f"Write `goal_state: [{', '.join(goal.goal_state)}]`; only actions may change."
            message = f"the new plan changes what goal `{goal.name}` is to reach"
            yield _finding("goal-changed", goal.name, None, message, fix)
    for name in offered:
        if name not in known:
            fix = "Put its actions into a goal that is there; a new goal needs a run of its own."
            yield _finding("goal-changed", name, None, f"the new plan adds goal `{name}`", fix)


def _begun_touched(
    begun: Iterable[tuple[Key, _Placed]], asked: Mapping[Key, _Placed], standing: Standing
) -> Iterator[Finding]:
    for key, placed in begun:
        status = standing.status(key)
        if key not in asked:
            message = f"action `{key}` is {status}: it stays, though the new plan leaves it out"
            fix = f"Write `{key}` down as it was, or leave it out if that is what you mean."
            yield _finding("begun-left-out", placed[0], key, message, fix, severity="warning")
        elif asked[key] != placed:
            message = f"action `{key}` is {status}: it stays as it was, and the new plan changes it"
            fix = f"Write `{key}` down as it was; give new work a key of its own."
            yield _finding("begun-changed", placed[0], key, message, fix)


def _failed_unchanged(kept: Iterable[tuple[Key, _Placed]], standing: Standing) -> Iterator[Finding]:
    for key, (goal, _) in kept:
        if standing.status(key) == "failed":
            message = f"action `{key}` failed and is unchanged: it is not tried again"
            fix = f"Change what `{key}` says, leave it out, or retry it with something new to go by."
            yield _finding("failed-unchanged", goal, key, message, fix, severity="warning")


def _finding(
    code: Code,
    goal: str,
    action: Key | None,
    message: str,
    fix: str,
    *,
    severity: Literal["error", "warning"] = "error",
) -> Finding:
    return Finding(code=code, severity=severity, goal=goal, action=action, message=message, fix=fix)
