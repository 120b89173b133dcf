"""What planners, supervisors and the user's agent get to read of a run: short, what matters first, the rest counted."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scaffold.core.ids import Assertion, Key
from scaffold.core.model import Action, Goal
from scaffold.core.plan import DEFAULT_ROLE, ActionSpec, GoalSpec
from scaffold.core.states import reason_of, status_of
from scaffold.orchestrator.answers import WHOLE, fitting, names
from scaffold.orchestrator.desks import Desk
from scaffold.plan.draft import WAITING, Draft, DraftRefused
from scaffold.plan.wording import Spelling, shown
from scaffold.tools.workspace import excerpt

MOST_ACTIONS = 50
"""Actions in one answer."""
RESULT = 2_000
"""Characters of one result among others."""
SENTENCES = 300
"""Characters of a description, a reason or names in a list."""
FAULTS = 3
"""Faults of a plan that the answer to a change names."""
FRAME = 600
"""Characters of an answer that its lists leave to what stands around them."""
STATUSES = (
    "failed",
    "blocked",
    WAITING,
    "running",
    "verifying",
    "landing",
    "pending",
    "completed",
    "skipped",
    "cancelled",
)
"""In the order in which actions are listed: what needs a thought comes first."""


def goal_meant(desk: Desk, name: str) -> GoalSpec:
    """Return the goal of that name or id; DraftRefused if there is none."""
    by_id = (goal.name for goal in desk.store.goals.of_run(desk.run.id) if goal.id == name)
    draft = desk.draft
    return draft.goal(name) or draft.known_goal(next(by_id, name))


def action_meant(desk: Desk, name: str) -> ActionSpec:
    """Return the action of that key or id; DraftRefused if there is none."""
    by_id = (action.key for action in desk.store.actions.of_run(desk.run.id) if action.id == name)
    draft = desk.draft
    return draft.action(name) or draft.known_action(next(by_id, name))


def goal_report(desk: Desk, goal: GoalSpec) -> dict[str, Any]:
    """Return what a goal is about, what of it holds, and how many actions are where."""
    draft = desk.draft
    held = draft.standing.held(goal.name)
    stored = stored_goal(desk, goal.name)
    unmet = unmet_of(draft, goal)
    state = [*unmet, *(name for name in goal.goal_state if name in held)]
    return {
        "goal": goal.name,
        "id": stored.id if stored else None,
        "status": status_of(stored.state) if stored else "proposed",
        "reason": reason_of(stored.state) if stored else None,
        "description": excerpt(goal.description, RESULT),
        "complete": not unmet,
        "goal_state": _truths(state, held),
        "world_state": _truths(sorted(held), held),
        "summary": excerpt(stored.summary, RESULT) if stored and stored.summary else None,
        "actions": dict(Counter(draft.standing.status(action.key) for action in goal.actions)),
    }


def _truths(wanted: Sequence[Assertion], held: frozenset[Assertion]) -> dict[str, Any]:
    """Map assertions to whether they hold; names that were left out stand there as a count."""
    return {name: name in held if name in wanted else None for name in names(wanted)}


def unmet_of(draft: Draft, goal: GoalSpec) -> tuple[Assertion, ...]:
    """Return what of the goal's state no fact shows, in order."""
    held = draft.standing.held(goal.name)
    return tuple(name for name in goal.goal_state if name not in held)


def faults_of(desk: Desk, goal: str) -> list[str] | None:
    """Return what keeps the plan of a goal from being sound by now, in the words of lint; None if nothing does."""
    found = [finding.message for finding in desk.draft.findings(goal) if finding.severity == "error"]
    more = [f"... and {len(found) - FAULTS} more"] if len(found) > FAULTS else []
    return [*(excerpt(message, SENTENCES) for message in found[:FAULTS]), *more] or None


def actions_report(desk: Desk, goal: GoalSpec, *, status: str | None, parent: str | None) -> dict[str, Any]:
    """Return the goal's actions, those with one status or below one compound if asked for, what matters first."""
    if status is not None and status not in STATUSES:
        raise DraftRefused(f"no action can be {shown(status)}", f"{Spelling(STATUSES).hint(status)}{_known()}")
    above = action_meant(desk, parent).key if parent else None
    draft = desk.draft
    chosen = [
        action
        for action in goal.actions
        if status in {None, draft.standing.status(action.key)} and (above is None or action.parent == above)
    ]
    chosen.sort(key=lambda action: STATUSES.index(draft.standing.status(action.key)))
    stored = stored_actions(desk, goal.name)
    entries = (_entry(draft, goal, action, stored.get(action.key)) for action in chosen)
    taken, left = fitting(entries, most=MOST_ACTIONS, room=WHOLE - FRAME)
    return {
        "goal": goal.name,
        "found": len(chosen),
        "actions": taken,
        "left_out": left or None,
        "rest": "Filter by `status` or `parent` to see them." if left else None,
    }


def _known() -> str:
    return f"A status is one of: {', '.join(STATUSES)}."


def _entry(draft: Draft, goal: GoalSpec, action: ActionSpec, stored: Action | None) -> dict[str, Any]:
    status = draft.standing.status(action.key)
    held = draft.standing.held(goal.name)
    lacking = [name for name in action.preconditions if name not in held]
    told = {
        "key": action.key,
        "status": status,
        "kind": "compound" if action.kind == "compound" else None,
        "role": None if action.role == DEFAULT_ROLE else action.role,
        "parent": action.parent,
        "description": excerpt(action.description, SENTENCES),
        "preconditions": names(action.preconditions, room=SENTENCES),
        "not_yet_true": names(lacking, room=SENTENCES) if status == "pending" else None,
        "effects": names(action.effects, room=SENTENCES),
        "reason": _reason(stored) if stored is not None and status == status_of(stored.state) else None,
    }
    return {name: value for name, value in told.items() if value}


def _reason(action: Action) -> str | None:
    reason = reason_of(action.state)
    return None if reason is None else excerpt(reason, SENTENCES)


def results_report(desk: Desk, goal: GoalSpec, keys: Sequence[Key]) -> dict[str, Any]:
    """Return what the goal's actions came to, those of `keys` if any are named: failures first, then the latest.

    Each is cut to its share of the answer; the store keeps it whole.
    """
    stored = stored_actions(desk, goal.name)
    for key in keys:
        if key not in stored:
            raise DraftRefused(f"`{key}` has no result: it is no stored action of goal `{goal.name}`", "Leave it out.")
    chosen = [stored[key] for key in dict.fromkeys(keys)] if keys else _with_results(stored)
    room = WHOLE - FRAME
    share = max(RESULT, room // len(chosen)) if keys else RESULT
    taken, left = fitting((_result(desk, action, share) for action in chosen), most=MOST_ACTIONS, room=room)
    cut = any("characters left out" in str(entry.get("result", "")) for entry in taken)
    return {
        "goal": goal.name,
        "results": taken,
        "left_out": names([action.key for action in chosen[len(taken) :]]) if left else None,
        "rest": "Name fewer in `actions` to see more of each." if left or (cut and len(taken) > 1) else None,
    }


def _with_results(stored: Mapping[Key, Action]) -> list[Action]:
    done = [action for action in stored.values() if action.result is not None or status_of(action.state) == "failed"]
    latest = sorted(done, key=lambda action: action.updated_at, reverse=True)
    return sorted(latest, key=lambda action: status_of(action.state) != "failed")


def _result(desk: Desk, action: Action, share: int) -> dict[str, Any]:
    status = status_of(action.state)
    attempts = desk.store.attempts.of_action(action.id)
    error = attempts[-1].error if attempts and status != "completed" else None
    told = {
        "action": action.key,
        "status": status,
        "attempts": len(attempts),
        "result": None if action.result is None else excerpt(action.result, share),
        "error": None if error is None else excerpt(error, share // 2),
        "other_approach": excerpt(action.guidance, SENTENCES) or None,
    }
    return {name: value for name, value in told.items() if value is not None}


def claims_report(desk: Desk, goal: GoalSpec, claims: Mapping[Assertion, bool], evidence: str) -> dict[str, Any]:
    """Return which of the claims evidence bears out, and what the named evidence has to do with it."""
    held = desk.draft.standing.held(goal.name)
    return {
        "holds": [name for name in claims if name in held],
        "not_shown": [name for name in claims if name not in held],
        "notes": list(_notes(desk.draft, goal, claims, evidence)) or None,
    }


def _notes(draft: Draft, goal: GoalSpec, claims: Mapping[Assertion, bool], evidence: str) -> Iterator[str]:
    held = draft.standing.held(goal.name)
    named = set(re.findall(r"[^\s`'\",;()]+", evidence))
    for action in goal.actions:
        if action.key in named or action.key in {word.rstrip(".:") for word in named}:
            status = draft.standing.status(action.key)
            for name in action.effects:
                if name in claims and name in held and status == "completed":
                    yield f"The landing of `{action.key}` has shown `{name}` already."
                elif name in claims and name not in held:
                    yield f"`{action.key}` is {status}: its landing, with evidence, will make `{name}` hold."
    for name, claim in claims.items():
        if name in held and not claim:
            yield f"`{name}` holds by evidence; only a check that fails can refute it."


def stored_goal(desk: Desk, name: str) -> Goal | None:
    """Return the goal as it is stored, None for one that is only proposed."""
    return next((goal for goal in desk.store.goals.of_run(desk.run.id) if goal.name == name), None)


def stored_actions(desk: Desk, goal: str) -> dict[Key, Action]:
    """Return the actions of a goal as they are stored, by key, in plan order; none for one that is only proposed."""
    stored = stored_goal(desk, goal)
    return {} if stored is None else {action.key: action for action in desk.store.actions.of_goal(stored.id)}
