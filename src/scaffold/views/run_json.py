"""The shape of `status --json`: fixed, for scripts; everything in it is JSON already."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from scaffold.core.ids import Assertion
from scaffold.core.model import Action, Attempt, Fact, Goal, InboxItem, Run
from scaffold.core.states import reason_of, status_of
from scaffold.host.identity import has_exited
from scaffold.views.run_view import RunView, read_run_view
from scaffold.views.state_labels import supervisor_state, task_state, worker_state
from scaffold.views.store_reader import StoreAccess

Json = dict[str, Any]

NO_RUN_JSON: Mapping[str, Any] = {"run": None, "goals": [], "actions": [], "queue": [], "inbox": []}
"""What is shown where nothing was ever run."""


def run_json(reader: StoreAccess, run: Run) -> Json:
    """Return what `status --json` prints of a run; times are ISO-8601 in UTC."""
    return run_view_json(read_run_view(reader, run))


def run_view_json(picture: RunView) -> Json:
    """Return a picture as plain JSON values."""
    value = {
        "run": _run(picture),
        "goals": [goal_json(picture, goal) for goal in picture.goals],
        "actions": [action_json(picture, action) for action in picture.actions],
        "queue": [_queue_entry(picture, attempt) for attempt in picture.queue],
        "inbox": [_inbox_item(picture, item) for item in picture.inbox],
    }
    return msgspec.to_builtins(value)  # type: ignore[no-any-return]


def goal_json(picture: RunView, goal: Goal) -> Json:
    """Return one entry of `goals`; what no fact shows is false."""
    holding = picture.holding(goal)
    mentioned = {*goal.desired, *_mentioned_assertions(picture.actions_of(goal))}
    return {
        "id": goal.id,
        "name": goal.name,
        "status": status_of(goal.state),
        "agent_state": supervisor_state(goal, gone=has_exited(goal.supervisor)),
        "reason": reason_of(goal.state),
        "goal_state": {assertion: assertion in holding for assertion in goal.desired},
        "world_state": {assertion: assertion in holding for assertion in sorted(mentioned)},
        "facts": [fact_json(fact) for fact in picture.facts[goal.id]],
        "supervisor": _supervisor(picture, goal),
    }


def _supervisor(picture: RunView, goal: Goal) -> Json:
    """Return which process pursues the goal just now, and what its agent is asked."""
    who = None if has_exited(goal.supervisor) else goal.supervisor
    keys = {action.id: action.key for action in picture.actions}
    turn = next((turn for turn in picture.turns if turn.goal_id == goal.id), None)
    asked = turn and {
        "event": turn.event,
        "action": keys.get(turn.action_id) if turn.action_id else None,
        "since": turn.started_at,
    }
    return {
        "pid": who.pid if who else None,
        "started_at": goal.supervisor_started_at if who else None,
        "alive": who is not None,
        "turn": asked,
    }


def fact_json(fact: Fact) -> Json:
    """Return a fact with what speaks for it."""
    fields = ("kind", "command", "exit_code", "commit", "at", "detail")
    evidence = [{field: getattr(each, field) for field in fields} for each in fact.evidence]
    return {
        "name": fact.assertion,
        "state": fact.state,
        "commit": fact.commit,
        "weak": fact.weak,
        "evidence": evidence,
    }


def action_json(picture: RunView, action: Action) -> Json:
    """Return one entry of `actions`."""
    return {
        "id": action.id,
        "key": action.key,
        "goal_id": action.goal_id,
        "parent_id": action.parent_id,
        "kind": action.kind,
        "method": action.method,
        "role": action.role,
        "description": action.description,
        "preconditions": list(action.preconditions),
        "effects": list(action.effects),
        "status": status_of(action.state),
        "task_state": task_state(action.state),
        "reason": reason_of(action.state),
        "attempts": [_attempt(picture, attempt) for attempt in picture.attempts_of(action)],
        "result": action.result,
    }


def _run(picture: RunView) -> Json:
    run = picture.run
    return {
        "id": run.id,
        "request": run.request,
        "status": picture.status,
        "reason": reason_of(run.state),
        "planning": picture.planning,
        "tier": run.settings.tier.name,
        "base_branch": run.base_branch,
        "base_sha": run.base_sha,
        "session_branch": run.session_branch,
        "created_at": run.created_at,
        "updated_at": run.updated_at,
        "budget": {
            "limit_usd": run.settings.limits.budget_usd,
            "spent_usd": picture.spent.cost_usd,
            "reserved_usd": picture.reserved_usd,
            "tokens": picture.spent.tokens,
            "confidence": 1.0,
        },
    }


def _attempt(picture: RunView, attempt: Attempt) -> Json:
    left = attempt.outcome is None and has_exited(attempt.worker)
    return {
        "id": attempt.id,
        "number": attempt.number,
        "status": attempt.status,
        "phase": attempt.phase,
        "outcome": attempt.outcome,
        "agent_state": worker_state(attempt, asks=picture.asks(attempt), gone=left),
        "iteration": attempt.iteration,
        "score": None if attempt.score is None else msgspec.structs.asdict(attempt.score),
        "executor": attempt.executor,
        "model": attempt.model,
        "base_sha": attempt.base_sha,
        "head_sha": attempt.head_sha,
        "started_at": attempt.started_at,
        "ended_at": attempt.ended_at,
        "tokens": attempt.usage.tokens,
        "cost_usd": attempt.usage.cost_usd,
        "log_file": attempt.log_file,
        "error": attempt.error,
    }


def _queue_entry(picture: RunView, attempt: Attempt) -> Json:
    action = next(action for action in picture.actions if action.id == attempt.action_id)
    return {
        "action": action.key,
        "attempt": attempt.number,
        "phase": attempt.phase,
        "head_sha": attempt.head_sha,
        "since": action.updated_at,  # the action became `landing` in the transaction that handed the candidate in
    }


def _inbox_item(picture: RunView, item: InboxItem) -> Json:
    keys = {action.id: action.key for action in picture.actions}
    return {
        "id": item.id,
        "kind": item.kind,
        "text": item.text,
        "detail": item.detail,
        "goal_id": item.goal_id,
        "action": keys.get(item.action_id) if item.action_id else None,
        "created_at": item.created_at,
        "expires_at": item.expires_at,
    }


def _mentioned_assertions(actions: Iterable[Action]) -> Iterable[Assertion]:
    for action in actions:
        yield from action.preconditions
        yield from action.effects
