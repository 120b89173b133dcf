"""Workers that die in a row: their goal rests, and says why; after too many of them, a human decides."""

from collections.abc import Mapping
from itertools import takewhile

import msgspec

from scaffold.core.events import NoticeRaised
from scaffold.core.ids import GoalId
from scaffold.core.model import Action, Attempt, Goal, InboxItem, Run
from scaffold.core.printable_text import count_of, truncate_text, utf8_safe
from scaffold.core.states import ORPHANED_BY_CRASH, AttemptOutcome
from scaffold.host.random_ids import new_id
from scaffold.host.wall_clock import zoned_time
from scaffold.plan.failures.fingerprint import ShownFailure, failure_fingerprint
from scaffold.plan.failures.worker_deaths import TELL_AFTER, must_ask, pause_s
from scaffold.store.database import Store

MAX_LOST_IN_A_ROW = 20
"""How many attempts of an action in a row may end in one of these ways before a human is asked."""
LOSSES: Mapping[AttemptOutcome, str] = {"lost": "were lost", "conflict": "conflicted with what had landed"}
"""Ends that are not failures of the work, and the text about them for people."""
MAX_SAME_LOSSES = 3
"""How many attempts of an action in a row may be lost for one reason: then it fails with it, or, if its workers died at
one place, a human decides."""
REASON_CHARS = 300
DEATHS = "deaths"
"""Key in the detail of an inbox item that asks what to do about deaths in a row; the value is their number."""


def record_death(store: Store, run: Run, attempt: Attempt) -> str | None:
    """Let the goal rest because the attempt's worker died; return the item to wait for if a human has to decide.

    The caller has ended the attempt in its transaction.
    """
    action, goal = _action_of(store, attempt), _goal_of(store, attempt)
    if action.deaths >= MAX_SAME_LOSSES and (place := _place_of_deaths(store, attempt)):
        died = f"{count_of(MAX_SAME_LOSSES, 'worker')} died in a row {place}"
        item = _ask_human(store, run, attempt, died, MAX_SAME_LOSSES)
        store.goals.forget_deaths(goal.id)  # its other work did not kill them
        return item
    if must_ask(of_goal=goal.deaths, of_action=action.deaths):
        count = max(goal.deaths, action.deaths)
        return _ask_human(store, run, attempt, f"{count_of(count, 'worker')} died in a row", count)
    rest = store.goals.rest(goal.id, pause_s(goal.deaths))
    if goal.deaths >= TELL_AFTER:
        text = (
            f"{goal.name} waits: {count_of(goal.deaths, 'worker')} died in a row, the last at {action.key}. "
            f"It is tried again at {zoned_time(rest.until)}, or at once after `scaffold retry {goal.name}`"
        )
        store.events.append(run.id, NoticeRaised("warning", text))
    return None


def is_repeated_loss(store: Store, attempt: Attempt) -> bool:
    """Return whether this and earlier attempts in a row were lost for one reason, so that the next one would be."""
    why = _reason_of_loss(attempt)
    if attempt.outcome != "lost" or not why:
        return False
    ended = reversed(store.attempts.for_action(attempt.action_id))
    same = takewhile(lambda each: each.outcome == "lost" and why == _reason_of_loss(each), ended)
    return sum(1 for _ in same) % MAX_SAME_LOSSES == 0


def record_loss(store: Store, run: Run, attempt: Attempt) -> str | None:
    """Return the item to wait for if so many attempts in a row were lost that the work may be the cause; else None.

    Such as work that breaks git in its worktree each time, or conflicts with all that lands before it.
    """
    if attempt.outcome is None or attempt.outcome not in LOSSES:
        return None
    ended = store.attempts.for_action(attempt.action_id)
    lost = sum(1 for _ in takewhile(lambda each: each.outcome == attempt.outcome, reversed(ended)))
    if lost % MAX_LOST_IN_A_ROW:
        return None
    return _ask_human(store, run, attempt, f"{count_of(lost, 'attempt')} {LOSSES[attempt.outcome]} in a row", lost)


def forget_deaths(store: Store, run: Run, goal_id: GoalId) -> bool:
    """Let a goal go on whose workers died, and answer what it asks about that; False if it waits for no such thing.

    The caller owns the transaction.
    """
    goal = store.goals.get(goal_id)
    asked = [each for each in store.inbox.open_of_run(run.id) if each.goal_id == goal_id and is_about_deaths(each)]
    for item in asked:
        store.inbox.decide(item.id, "answered")
    waited = bool(asked) or (goal is not None and goal.deaths > 0)
    if waited:
        store.goals.forget_deaths(goal_id)
    return waited


def is_about_deaths(item: InboxItem) -> bool:
    """Return whether the item asks what to do about workers that died in a row."""
    return DEATHS in item.detail


def _reason_of_loss(attempt: Attempt) -> str:
    return failure_fingerprint(ShownFailure(attempt.error or ""))


def _place_of_deaths(store: Store, attempt: Attempt) -> str:
    """Return where the last workers of the action died, in words; empty if one of them had come further."""
    ended = reversed(store.attempts.for_action(attempt.action_id))
    # That an owner died says nothing, and who never began was nowhere.
    died = [each for each in ended if each.error != ORPHANED_BY_CRASH and each.worker][:MAX_SAME_LOSSES]
    turns = [store.kept_turns.get(each.id) for each in died]
    places = {
        (each.outcome, each.phase, turn and turn.place, store.kept_turns.progress(each.id))
        for each, turn in zip(died, turns, strict=True)
    }
    if len(died) < MAX_SAME_LOSSES or len(places) > 1:
        return ""
    calls = () if turns[0] is None else turns[0].running
    running = ", ".join(f"{each.name} {msgspec.json.encode(each.args).decode()}" for each in calls)
    return f"while they ran {truncate_text(running, REASON_CHARS)}" if running else "at the same place"


def _ask_human(store: Store, run: Run, attempt: Attempt, what: str, count: int) -> str:
    action, goal = _action_of(store, attempt), _goal_of(store, attempt)
    # Going on with the same conversation is what did not work, and would not show the answer.
    store.attempts.begin_anew(attempt.action_id)
    why = utf8_safe(attempt.error or "")[:REASON_CHARS]
    text = (
        f"{what}, the last at {action.key}: {why}\nRemove the cause, then answer what the next one should know, or run "
        f"`scaffold retry {action.key}`. `scaffold stop {action.key}` gives it up."
    )
    asked = InboxItem(
        id=new_id(),
        run_id=run.id,
        goal_id=goal.id,
        action_id=action.id,
        attempt_id=attempt.id,
        kind="question",
        text=text,
        detail={"question": text, "action": action.key, DEATHS: count},
        created_at=attempt.ended_at or attempt.queued_at,
    )
    return store.inbox.ask(asked).id


def _action_of(store: Store, attempt: Attempt) -> Action:
    action = store.actions.get(attempt.action_id)
    if action is None:
        raise LookupError(attempt.action_id)
    return action


def _goal_of(store: Store, attempt: Attempt) -> Goal:
    goal = store.goals.get(_action_of(store, attempt).goal_id)
    if goal is None:
        raise LookupError(attempt.action_id)
    return goal
