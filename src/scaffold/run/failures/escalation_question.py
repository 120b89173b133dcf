"""The last rung of the failure ladder: a human decides about an action, and other work goes on meanwhile."""

from typing import Final

from scaffold.core.ids import ActionId, ActionKey, AttemptId, GoalId
from scaffold.core.model import Action, Attempt, InboxItem, Run
from scaffold.core.printable_text import count_of, truncate_text, utf8_safe
from scaffold.core.states import COUNTED_FAILURES, Failed, Pending, Skipped, blocked_on_inbox
from scaffold.git.refs import rescue_ref
from scaffold.host.random_ids import new_id
from scaffold.plan.failures.answers import CHOICES, CONTEXT, ChosenAnswer
from scaffold.plan.failures.recurrence import first_same
from scaffold.run.failures.attempt_end import block_unreachable_actions, require_attempt
from scaffold.run.failures.ladder import is_safety_refusal
from scaffold.run.failures.refused_work import first_failure
from scaffold.store.database import Store

FAILED: Final = "failed"
"""Key in the detail of an inbox item that asks about an action; the value is how many of its attempts it shows."""
GIVEN_UP: Final = "a human gave it up"
"""The reason of an action that failed because a human said so."""
CAUSE_CHARS = 600
MAX_ATTEMPTS = 5
ANSWERS: Final = {
    "retry": "try again with a new set of attempts; what follows is a hint to their agents",
    "skip": "go on without it; the planner may find another way",
    "fail": "give it up; what needs it fails",
}


def ask_about_failure(store: Store, run: Run, action_id: ActionId) -> None:
    """Let a failed action wait for a human, whose question shows its failures; the caller owns the transaction."""
    action = store.actions.get(action_id)
    if action is None or not isinstance(action.state, Failed):
        return
    failed = [each for each in store.attempts.for_action(action_id) if each.outcome in COUNTED_FAILURES]
    times = count_of(len(failed), "attempt")
    refused = any(map(is_safety_refusal, failed[-1:]))
    why = "its work changes what it may not" if refused else "the planner found no other way"
    text = f"`{action.key}` failed after {times}, and {why}. How should it go on?"
    _ask_how_to_go_on(store, run, action, text, failed)
    # What was blocked by the failure waits again: the answer may be another try.
    store.actions.unblock(action.goal_id)
    block_unreachable_actions(store, action.goal_id)


def ask_about_conflict(store: Store, run: Run, attempt_id: AttemptId, why: str) -> None:
    """Let an action wait for a human, whose question shows `why` its work and what landed contradict each other.

    Does nothing if the action does not wait for another attempt. The caller owns the transaction.
    """
    attempt = require_attempt(store, attempt_id)
    action = store.actions.get(attempt.action_id)
    if action is None or not isinstance(action.state, Pending):
        return
    text = f"The work of `{action.key}` contradicts what has landed. How should it go on?"
    _ask_how_to_go_on(store, run, action, text, [attempt], because=f"{why}\n")


def given_up_actions(store: Store, goal_id: GoalId) -> tuple[ActionKey, ...]:
    """Return the failed actions of a goal that a human has given up, in plan order."""
    failed = ((each.key, each.state) for each in store.actions.for_goal(goal_id))
    return tuple(key for key, state in failed if isinstance(state, Failed) and state.reason.startswith(GIVEN_UP))


def is_about_failure(item: InboxItem) -> bool:
    """Return whether the item asks how to go on with an action that has failed."""
    return FAILED in item.detail


def apply_failure_answer(store: Store, item: InboxItem, answer: ChosenAnswer) -> None:
    """Do what a human answered about a failed action, which the decision has set back to pending.

    The caller owns the transaction of the decision: nothing may start in between.
    """
    action = store.actions.get(item.action_id) if item.action_id else None
    if action is None or not isinstance(action.state, Pending):
        return
    why = f": {answer.rest}" if answer.rest else ""
    match answer.word:
        case "retry":
            store.actions.reset_failures(action.id)
            if answer.rest:
                store.actions.hint(action.id, utf8_safe(answer.rest))
        case "skip":
            store.actions.move(action.id, Skipped(utf8_safe(f"a human skipped it{why}")))
        case _:
            store.actions.move(action.id, Failed(utf8_safe(f"{GIVEN_UP}{why}")))
            store.actions.mark_failure_handled(action.id)
    if answer.word != "fail":
        # The planner may help again: with what a human decided, its earlier turns say nothing about the next ones.
        store.turns.reset_progress_count(action.goal_id)
    block_unreachable_actions(store, action.goal_id)


def retry_asked(store: Store, item: InboxItem) -> None:
    """Answer the question by a retry without a hint; the caller owns the transaction."""
    store.inbox.decide(item.id, "answered", answer="retry")
    apply_failure_answer(store, item, ChosenAnswer("retry"))


def _ask_how_to_go_on(
    store: Store, run: Run, action: Action, text: str, ended: list[Attempt], *, because: str = ""
) -> None:
    last = ended[-1] if ended else None
    detail = {
        "question": text,
        "action": action.key,
        FAILED: len(ended),
        CHOICES: ANSWERS,
        CONTEXT: f"{because}{_failures_text(ended)}",
        "attempts": [_attempt_detail(each, ended) for each in ended],
    }
    asked = InboxItem(
        id=new_id(),
        run_id=run.id,
        goal_id=action.goal_id,
        action_id=action.id,
        attempt_id=last.id if last else None,
        kind="question",
        text=text,
        detail=detail,
        created_at=(last.ended_at if last else None) or action.updated_at,
    )
    waiting = blocked_on_inbox(store.inbox.ask(asked).id)
    if isinstance(action.state, Pending):
        store.actions.move(action.id, waiting)
    else:
        store.actions.move_each((action,), Pending(), waiting)


def _failures_text(failed: list[Attempt]) -> str:
    lines = []
    for each in failed[-MAX_ATTEMPTS:]:
        cause = first_failure(utf8_safe(each.error or "no cause is known"))
        lines.append(f"attempt {each.number} ({_failure_line(each, failed)}): {truncate_text(cause, CAUSE_CHARS)}")
        if each.head_sha is not None and each.head_sha != each.base_sha:
            lines.append(f"  its changes: git diff {each.base_sha[:12]} {rescue_ref(each.id)}")
    return "\n".join(lines)


def _failure_line(attempt: Attempt, failed: list[Attempt]) -> str:
    first = first_same(failed, attempt)
    same = f", the same failure as in attempt {first.number}" if first else ""
    return f"{attempt.outcome}{', another approach' if attempt.alternative else ''}{same}"


def _attempt_detail(attempt: Attempt, failed: list[Attempt]) -> dict[str, object]:
    return {
        "number": attempt.number,
        "outcome": attempt.outcome,
        "how": _failure_line(attempt, failed),
        "fingerprint": attempt.fingerprint,
        "base": attempt.base_sha,
        "head": attempt.head_sha,
    }
