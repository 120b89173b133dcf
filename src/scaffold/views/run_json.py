"""The JSON of a run, its goals, actions and facts, as `status --json` and others print it; its keys are fixed."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec
from msgspec import Struct

from scaffold.core.landing.branch_move import BranchMove
from scaffold.core.model import Action, Attempt, Fact, FileGrant, Goal, Run
from scaffold.core.proof.contract import evidence_json
from scaffold.core.proof.not_ready import read_missing_program
from scaffold.core.states import reason_of, status_of
from scaffold.plan.collisions.rules import HeldBack
from scaffold.plan.failures.recurrence import first_same
from scaffold.views.agent_list import AgentRow
from scaffold.views.compliance import compliance_json
from scaffold.views.run_view import RunSummary, RunView
from scaffold.views.state_labels import goal_reason, supervisor_state, task_state, worker_state

Json = dict[str, Any]
NO_RUN_JSON: Mapping[str, Any] = {"run": None, "goals": [], "actions": [], "queue": [], "inbox": []}
"""What `status --json` prints in a repository without runs."""


def run_view_json(view: RunView) -> Json:
    """Return what `status --json` prints of a run; times are ISO-8601 in UTC."""
    keys = {action.id: action.key for action in view.actions}
    value = {
        "run": run_json(view.summary),
        "goals": [goal_json(view, goal) for goal in view.goals],
        "actions": [action_json(view, action) for action in view.actions],
        "queue": queue_json(view),
        "inbox": [
            {
                **_pick_fields(item, ("id", "kind", "text", "detail", "goal_id")),
                "action": keys.get(item.action_id) if item.action_id else None,
                **_pick_fields(item, ("created_at", "expires_at")),
            }
            for item in view.summary.inbox
        ],
    }
    if (reviewer := view.run.settings.planning.reviewer) is not None:
        value["reviewer"] = {"model": reviewer.model.name, "unreliable": bool(view.unreliable_reviewer)}
    if view.compliance is not None:
        value["audit"] = compliance_json(view.compliance)
    return msgspec.to_builtins(value)  # type: ignore[no-any-return]


def run_json(summary: RunSummary) -> Json:
    """Return the value of `run`."""
    run = summary.run
    return {
        **_pick_fields(run, ("id", "request")),
        "status": summary.status,
        "reason": summary.reason or (f"waits for {summary.waits_for}" if summary.waits_for else None),
        "planning": summary.planning,
        "tier": run.settings.tier.name,
        **tier_json(run),
        **_pick_fields(run, ("base_branch", "base_sha", "session_branch", "created_at", "updated_at")),
        "budget": budget_json(summary),
        "taken": [taken_json(move) for move in summary.taken.moves],
        "open_order": summary.taken.order,
    }


def budget_json(summary: RunSummary) -> Json:
    """Return the value of `budget`; `tokens` counts all, the limit only uncached ones."""
    use = summary.budget
    return {
        "limit_usd": use.limits.usd,
        "spent_usd": summary.spent.cost_usd,
        "reserved_usd": use.reserved.usd,
        "tokens": summary.spent.tokens,
        "confidence": use.confidence,
        "limit_tokens": use.limits.tokens,
        "spent_tokens": use.spent.tokens,
        "reserved_tokens": use.reserved.tokens,
        "used_share": use.share,
    }


def taken_json(move: BranchMove) -> Json:
    """Return an entry of `taken`: the branch with work of the run, and each commit with its new one."""
    return {
        "how": move.purpose,
        "branch": move.branch,
        "commit": move.new,
        "url": move.url or None,
        "at": move.resolved_at,
        "commits": [_pick_fields(each, ("old", "new", "action")) for each in move.commits],
    }


def queue_json(view: RunView) -> list[Json]:
    """Return the value of `queue`."""
    return [_queue_entry(view, attempt) for attempt in view.queue]


def goal_json(view: RunView, goal: Goal) -> Json:
    """Return one entry of `goals`; an assertion without a fact is false."""
    holding = view.holding(goal)
    sides = (names for action in view.actions_of(goal) for names in (action.preconditions, action.effects))
    mentioned = {*goal.desired, *chain.from_iterable(sides)}
    return {
        "id": goal.id,
        "name": goal.name,
        "status": status_of(goal.state),
        "agent_state": supervisor_state(goal, gone=goal.supervisor in view.exited),
        "reason": goal_reason(goal, view.summary.at),
        "goal_state": {assertion: assertion in holding for assertion in goal.desired},
        "world_state": {assertion: assertion in holding for assertion in sorted(mentioned)},
        "facts": [fact_json(fact) for fact in view.facts[goal.id]],
        "supervisor": _supervisor_json(view, goal),
    }


def _supervisor_json(view: RunView, goal: Goal) -> Json:
    process = None if goal.supervisor in view.exited else goal.supervisor
    keys = {action.id: action.key for action in view.actions}
    turn = next((turn for turn in view.summary.turns if turn.goal_id == goal.id), None)
    asked = turn and {
        "event": turn.event,
        "action": keys.get(turn.action_id) if turn.action_id else None,
        "since": turn.started_at,
    }
    return {
        "pid": process.pid if process else None,
        "started_at": goal.supervisor_started_at if process else None,
        "alive": process is not None,
        "turn": asked,
    }


def fact_json(fact: Fact) -> Json:
    """Return a fact with its evidence."""
    evidence = [
        _pick_fields(each, ("kind", "command", "exit_code", "commit", "at", "detail")) for each in fact.evidence
    ]
    return {
        "name": fact.assertion,
        **_pick_fields(fact, ("state", "commit")),
        **evidence_json(fact.doubts, fact.strength),
        "evidence": evidence,
    }


def _action_reason(action: Action) -> Json | str | None:
    reason = reason_of(action.state)
    missing = read_missing_program(reason) if reason else None
    return msgspec.to_builtins(missing) if missing else reason


def action_json(view: RunView, action: Action) -> Json:
    """Return one entry of `actions`."""
    return {
        **_pick_fields(action, ("id", "key", "goal_id", "parent_id", "kind", "method", "workspace", "role")),
        **_pick_fields(action, ("title", "description", "verification_intent", "type", "notes")),
        "acceptance": list(action.acceptance),
        "preconditions": list(action.preconditions),
        "effects": list(action.effects),
        "files": list(action.files),
        "granted_files": [grant_json(grant) for grant in view.grants.get(action.id, ())],
        "status": status_of(action.state),
        "task_state": task_state(action.state),
        "failures": view.failures.get(action.id, 0),
        "attempts_allowed": view.attempts_allowed(action),
        "reason": _action_reason(action),
        "held_back": held_back_json(view.held_back.get(action.id)),
        "attempts": [_attempt_json(view, action, attempt) for attempt in view.attempts_of(action)],
        "assumptions": [
            _pick_fields(each, ("question", "assumed", "created_at"))
            for each in view.assumptions
            if each.action_id == action.id
        ],
        "result": action.result,
    }


def held_back_json(why: HeldBack | None) -> Json | None:
    """Return what keeps a ready action from starting beside running ones; None if nothing does."""
    return (
        None if why is None else {"rule": why.rule, "waits_for": [*why.waits_for], "path": why.path, "text": why.text}
    )


def grant_json(grant: FileGrant) -> Json:
    """Return an entry that was added to an action's files at its agent's request."""
    return _pick_fields(grant, ("path", "by", "reason", "at"))


def agent_json(row: AgentRow) -> Json:
    """Return one entry of `agents`."""
    step = row.activity
    return {
        **_pick_fields(row, ("role", "goal", "action", "attempt", "pid", "alive")),
        "model": row.model or None,
        "agent_state": row.state,
        "phase": row.phase,
        "since": row.since,
        "tokens": row.usage.tokens,
        "cost_usd": row.usage.cost_usd,
        "waits_on": row.waits_on or None,
        "step": step
        and {**_pick_fields(step.work, ("label", "command", "folder")), **_pick_fields(step, ("since", "last_s"))},
        "last_act": row.last_activity,
    }


def _attempt_json(view: RunView, action: Action, attempt: Attempt) -> Json:
    exited = attempt.outcome is None and attempt.worker in view.exited
    return {
        **_pick_fields(attempt, ("id", "number", "status", "phase", "outcome")),
        "agent_state": worker_state(attempt, asks=view.asks(action, attempt), gone=exited),
        **_pick_fields(attempt, ("iteration", "score", "executor")),
        "executor_version": attempt.executor_version or None,
        **_pick_fields(attempt, ("model", "base_sha", "head_sha", "started_at", "ended_at")),
        "tokens": attempt.usage.tokens,
        "cost_usd": attempt.usage.cost_usd,
        **_pick_fields(attempt, ("log_file", "error")),
        **failure_json(attempt, view.attempts_of(action)),
    }


def failure_json(attempt: Attempt, attempts: Sequence[Attempt]) -> Json:
    """Return how an attempt failed, compared with earlier ones, and what followed."""
    same = first_same(attempts, attempt)
    return {
        "fingerprint": attempt.fingerprint or None,
        "same_failure_as": same.number if same else None,
        "alternative": attempt.alternative,
        "escalation": attempt.escalation,
    }


def _queue_entry(view: RunView, attempt: Attempt) -> Json:
    action = next(action for action in view.actions if action.id == attempt.action_id)
    place = view.places.get(attempt.id)
    return {
        "action": action.key,
        "attempt": attempt.number,
        "phase": attempt.phase,
        "head_sha": attempt.head_sha,
        "position": view.queue.index(attempt) + 1,
        "lane": place.lane if place else None,
        "state": place.state if place else "waiting",
        "waits_for": [*place.waits_for] if place else [],
        "detail": place.detail if place else "",
        "conflicts": {key: [*paths] for key, paths in place.conflicts.items()} if place else {},
        "since": action.updated_at,  # the action became `landing` in the transaction that handed the candidate in
    }


def _pick_fields(value: Struct, names: Iterable[str]) -> Json:
    return {name: getattr(value, name) for name in names}


def tier_json(run: Run) -> dict[str, Any]:
    """Return the keys that stand beside `tier` in the JSON of a run."""
    settings = run.settings
    return {
        "tier_confidence": settings.choice.confidence,
        "tier_reason": settings.choice.reason or None,
        "questions": settings.tier.questions,
        "agents": run.agents,
        "agents_reason": run.advice if run.advice and not settings.choice.fixed_agents else None,
        "models": {
            "model": settings.model.name,
            **{role: each.name for role, each in settings.assigned.by_role.items()},
            **{kind: each.name for kind, each in settings.assigned.by_task.items()},
        },
    }
