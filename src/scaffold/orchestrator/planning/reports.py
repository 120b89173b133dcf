"""Reports of a run for agents that plan or chat: short, most important first, the rest counted."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scaffold.core.ids import ActionKey, Assertion
from scaffold.core.model import Action, Goal
from scaffold.core.plan import DEFAULT_ROLE, ActionSpec, GoalSpec, full_text
from scaffold.core.printable_text import truncate_text
from scaffold.core.states import reason_of, status_of
from scaffold.orchestrator.planning.proposals import ProposalTarget
from scaffold.orchestrator.planning.tool_responses import RESPONSE_CHARS, fit_entries, truncate_names
from scaffold.plan.edit.draft import IN_PROGRESS_STATUSES, WAITING, ChangeRejected, PlanDraft
from scaffold.plan.message_text import quoted, quoted_list
from scaffold.plan.spelling_hints import SpellingHints

MAX_ACTIONS = 50
"""Limit for actions in one answer."""
RESULT_CHARS = 2_000
"""Limit for one result in a list, in characters."""
TEXT_CHARS = 300
"""Limit for a description, a reason or a list of names within a list, in characters."""
MAX_ERRORS = 3
"""How many errors of a plan the answer to a change names."""
OPEN_STATUSES = frozenset({"pending", *IN_PROGRESS_STATUSES})
"""Statuses of actions that may still land."""
OVERHEAD_CHARS = 600
"""Room for everything in an answer but its list, in characters."""
STATUS_ORDER = (
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
"""The order of listed actions: those that need attention first."""


def find_goal(proposals: ProposalTarget, name: str) -> GoalSpec:
    """Return the goal with that name or id; raises ChangeRejected if there is none."""
    by_id = (goal.name for goal in proposals.store.goals.for_run(proposals.run.id) if goal.id == name)
    draft = proposals.draft
    # A name wins over an id; the last call raises with a hint at similar names.
    return draft.goal(name) or draft.known_goal(next(by_id, name))


def find_action(proposals: ProposalTarget, name: str) -> ActionSpec:
    """Return the action with that key or id; raises ChangeRejected if there is none."""
    by_id = (action.key for action in proposals.store.actions.for_run(proposals.run.id) if action.id == name)
    draft = proposals.draft
    return draft.action(name) or draft.known_action(next(by_id, name))


def goal_report(proposals: ProposalTarget, goal: GoalSpec) -> dict[str, Any]:
    """Return a goal's description, which of its assertions hold, and its number of actions by status."""
    draft = proposals.draft
    held = draft.progress.held(goal.name)
    stored = stored_goal(proposals, goal.name)
    unmet = unmet_assertions(draft, goal)
    # Missing assertions come first, because the end of a long list is cut.
    state = [*unmet, *(name for name in goal.goal_state if name in held)]
    return {
        "goal": goal.name,
        "id": stored.id if stored else None,
        "status": status_of(stored.state) if stored else "proposed",
        "reason": reason_of(stored.state) if stored else None,
        "description": truncate_text(goal.description, RESULT_CHARS),
        "complete": not unmet,
        "goal_state": _holding_by_name(state, held),
        "world_state": _holding_by_name(sorted(held), held),
        "summary": truncate_text(stored.summary, RESULT_CHARS) if stored and stored.summary else None,
        "actions": dict(Counter(draft.progress.status(action.key) for action in goal.actions)),
    }


def _holding_by_name(wanted: Sequence[Assertion], held: frozenset[Assertion]) -> dict[str, Any]:
    # An entry with value None counts those left out.
    return {name: name in held if name in wanted else None for name in truncate_names(wanted)}


def unmet_assertions(draft: PlanDraft, goal: GoalSpec) -> tuple[Assertion, ...]:
    """Return the assertions of the goal state that do not hold, in order."""
    held = draft.progress.held(goal.name)
    return tuple(name for name in goal.goal_state if name not in held)


def goal_plan_errors(proposals: ProposalTarget, goal: str) -> list[str] | None:
    """Return lint's error messages for the goal's current plan, the first few and a count; None without errors."""
    found = [finding.message for finding in proposals.draft.findings(goal) if finding.severity == "error"]
    more = [f"... and {len(found) - MAX_ERRORS} more"] if len(found) > MAX_ERRORS else []
    return [*(truncate_text(message, TEXT_CHARS) for message in found[:MAX_ERRORS]), *more] or None


def actions_report(
    proposals: ProposalTarget, goal: GoalSpec, *, status: str | None, parent: str | None
) -> dict[str, Any]:
    """Return the goal's actions in `STATUS_ORDER`, optionally only those with one status or below one compound."""
    if status is not None and status not in STATUS_ORDER:
        known = f"A status is one of: {', '.join(STATUS_ORDER)}."
        raise ChangeRejected(
            f"there is no status {quoted(status)}", f"{SpellingHints(STATUS_ORDER).hint(status)}{known}"
        )
    compound_key = find_action(proposals, parent).key if parent else None
    draft = proposals.draft
    chosen = [
        action
        for action in goal.actions
        if status in {None, draft.progress.status(action.key)}
        and (compound_key is None or action.parent == compound_key)
    ]
    chosen.sort(key=lambda action: STATUS_ORDER.index(draft.progress.status(action.key)))
    stored = stored_actions(proposals, goal.name)
    entries = (_action_entry(draft, goal, action, stored.get(action.key)) for action in chosen)
    taken, left = fit_entries(entries, most=MAX_ACTIONS, room=RESPONSE_CHARS - OVERHEAD_CHARS)
    return {
        "goal": goal.name,
        "found": len(chosen),
        "actions": taken,
        "left_out": left or None,
        "rest": "Filter by `status` or `parent` to see the others." if left else None,
    }


def _action_entry(draft: PlanDraft, goal: GoalSpec, action: ActionSpec, stored: Action | None) -> dict[str, Any]:
    status = draft.progress.status(action.key)
    held = draft.progress.held(goal.name)
    lacking = [name for name in action.preconditions if name not in held]
    # The draft may have changed the status, and then the stored reason is outdated.
    reason = reason_of(stored.state) if stored is not None and status == status_of(stored.state) else None
    fields = {
        "key": action.key,
        "status": status,
        "kind": "compound" if action.kind == "compound" else None,
        "role": None if action.role == DEFAULT_ROLE else action.role,
        "parent": action.parent,
        "description": truncate_text(full_text(action), TEXT_CHARS),
        "preconditions": truncate_names(action.preconditions, room=TEXT_CHARS),
        "not_yet_true": truncate_names(lacking, room=TEXT_CHARS) if status == "pending" else None,
        "effects": truncate_names(action.effects, room=TEXT_CHARS),
        "reason": None if reason is None else truncate_text(reason, TEXT_CHARS),
    }
    return {name: value for name, value in fields.items() if value}


def results_report(proposals: ProposalTarget, goal: GoalSpec, keys: Sequence[ActionKey]) -> dict[str, Any]:
    """Return results and errors of the goal's actions, or of those in `keys`: failures first, then the latest.

    Each is cut to its share of the answer. Raises ChangeRejected for a key that is not stored.
    """
    stored = stored_actions(proposals, goal.name)
    for key in keys:
        if key not in stored:
            raise ChangeRejected(
                f"`{key}` has no result: it is not a stored action of goal `{goal.name}`", "Leave it out."
            )
    done = [action for action in stored.values() if action.result is not None or status_of(action.state) == "failed"]
    latest = sorted(done, key=lambda action: action.updated_at, reverse=True)
    # Sorting is stable, so the latest stay first among failures and among the rest.
    chosen = sorted(latest, key=lambda action: status_of(action.state) != "failed")
    if keys:
        chosen = [stored[key] for key in dict.fromkeys(keys)]
    room = RESPONSE_CHARS - OVERHEAD_CHARS
    # As the note `rest` promises, fewer names leave more room for each.
    share = max(RESULT_CHARS, room // len(chosen)) if keys else RESULT_CHARS
    taken, left = fit_entries(
        (_result_entry(proposals, action, share) for action in chosen), most=MAX_ACTIONS, room=room
    )
    cut = any(len(action.result or "") > share for action in chosen[: len(taken)])
    return {
        "goal": goal.name,
        "results": taken,
        "left_out": truncate_names([action.key for action in chosen[len(taken) :]]) if left else None,
        "rest": "Name fewer in `actions` to see more of each." if left or (cut and len(taken) > 1) else None,
    }


def _result_entry(proposals: ProposalTarget, action: Action, share: int) -> dict[str, Any]:
    status = status_of(action.state)
    attempts = proposals.store.attempts.for_action(action.id)
    error = attempts[-1].error if attempts and status != "completed" else None
    fields = {
        "action": action.key,
        "status": status,
        "attempts": len(attempts),
        "result": None if action.result is None else truncate_text(action.result, share),
        "error": None if error is None else truncate_text(error, share // 2),
        "other_approach": truncate_text(action.guidance, TEXT_CHARS) or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def claims_report(
    proposals: ProposalTarget, goal: GoalSpec, claims: Mapping[Assertion, bool], evidence: str, *, checked: bool
) -> dict[str, Any]:
    """Return which claimed assertions hold by evidence, with notes about what `evidence` names.

    `checked`: it is a command or a commit, and was checked.
    """
    held = proposals.draft.progress.held(goal.name)
    words = set(re.findall(r"[^\s`'\",;()]+", evidence))
    words |= {word.rstrip(".:") for word in words}
    named = frozenset(each.key for each in goal.actions if each.key in words)
    notes = [*_claim_notes(proposals.draft, goal, claims, named)]
    if checked:
        notes += _ways_to_hold(proposals.draft, goal, claims)
    elif evidence and not named:
        notes.append("Nothing was checked: name an action, `commit SHA`, or a command in backticks or as `command`.")
    return {
        "holds": [name for name in claims if name in held],
        "not_shown": [name for name in claims if name not in held],
        "notes": notes or None,
    }


def _ways_to_hold(draft: PlanDraft, goal: GoalSpec, claims: Mapping[Assertion, bool]) -> Iterator[str]:
    # A command that the agent chose makes nothing true, so it is told what would.
    held = draft.progress.held(goal.name)
    for name in (name for name, claim in claims.items() if claim and name not in held):
        providers = [
            each.key
            for each in goal.actions
            if name in each.effects and draft.progress.status(each.key) in OPEN_STATUSES
        ]
        way = (
            f"it holds once {quoted_list(providers)} has landed with evidence."
            if providers
            else "create an action that makes it true, with such a command as a check of its contract."
        )
        yield f"What was found does not make `{name}` hold: {way}"


def _claim_notes(
    draft: PlanDraft, goal: GoalSpec, claims: Mapping[Assertion, bool], named: frozenset[ActionKey]
) -> Iterator[str]:
    held = draft.progress.held(goal.name)
    for action in goal.actions:
        if action.key in named:
            status = draft.progress.status(action.key)
            for name in action.effects:
                if name in claims and name in held and status == "completed":
                    yield f"`{name}` already holds: it was proven when `{action.key}` landed."
                elif name in claims and name not in held:
                    yield f"`{action.key}` is {status}: `{name}` will hold once it has landed with evidence."
    for name, claim in claims.items():
        if name in held and not claim:
            yield f"`{name}` is backed by evidence; only a failing check can refute it."


def stored_goal(proposals: ProposalTarget, name: str) -> Goal | None:
    """Return the stored goal; None if it is only proposed."""
    return next((goal for goal in proposals.store.goals.for_run(proposals.run.id) if goal.name == name), None)


def stored_actions(proposals: ProposalTarget, goal: str) -> dict[ActionKey, Action]:
    """Return the stored actions of a goal by key, in plan order; empty if the goal is only proposed."""
    stored = stored_goal(proposals, goal)
    return {} if stored is None else {action.key: action for action in proposals.store.actions.for_goal(stored.id)}
