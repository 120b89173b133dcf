"""Questions whether a long attempt is to go on, in the store: the question is the record of the extension, too."""

from collections.abc import Sequence
from datetime import datetime
from itertools import takewhile

from scaffold.core.model import Attempt, InboxItem, Run
from scaffold.core.printable_text import count_of
from scaffold.core.states import COUNTED_FAILURES, WORKER_PHASES
from scaffold.host.random_ids import new_id
from scaffold.plan.failures.answers import ANSWERS, CHOICES, SOFT_TIMEOUT, WAIT
from scaffold.run.attempts.assignment import Assignment
from scaffold.store.database import Store


def is_about_soft_timeout(item: InboxItem) -> bool:
    """Return whether the item asks whether an attempt is to go on."""
    return SOFT_TIMEOUT in item.detail


def soft_timeout_question(task: Assignment, number: int, *, used_s: float, left_s: float, now: datetime) -> InboxItem:
    """Return the question number `number` about an attempt that has used `used_s` seconds and has `left_s` left."""
    key, attempt, used = task.action.key, task.attempt, _duration_text(used_s)
    text = (
        f"attempt {attempt.number} of `{key}` has worked for {used}, and keeps working. Kill it, or wait? "
        f"Without an answer it ends in {_duration_text(left_s)}, its work pinned."
    )
    return InboxItem(
        id=new_id(),
        run_id=attempt.run_id,
        goal_id=task.goal.id,
        action_id=task.action.id,
        attempt_id=attempt.id,
        kind="question",
        text=text,
        detail={"question": text, "action": key, "attempt": attempt.id, SOFT_TIMEOUT: number, CHOICES: ANSWERS},
        created_at=now,
    )


def granted_extensions(store: Store, attempt: Attempt) -> int:
    """Return the number of `wait` answers about the attempts that this one continues.

    It continues the ones before it that did not fail: a crash must not take away what was granted.
    """
    earlier = [each for each in store.attempts.for_action(attempt.action_id) if each.number < attempt.number]
    continued = takewhile(lambda each: each.outcome not in COUNTED_FAILURES, reversed(earlier))
    return sum(
        is_about_soft_timeout(item) and (item.answer or "").strip().casefold().startswith(WAIT)
        for each in continued
        for item in store.inbox.answered(each.id)
    )


def withdraw_settled(store: Store, run: Run) -> bool:
    """Withdraw the run's questions about attempts that no longer work; return whether there were any.

    The caller owns the transaction.
    """
    settled = settled_questions(store, run)
    for item in settled:
        store.inbox.withdraw_item(item.id)
    return bool(settled)


def settled_questions(store: Store, run: Run) -> Sequence[InboxItem]:
    """Return the run's open questions about attempts that no longer work."""
    asked = [item for item in store.inbox.open_of_run(run.id) if is_about_soft_timeout(item)]
    return [item for item in asked if not is_asked_in_time(store, item)]


def is_asked_in_time(store: Store, item: InboxItem) -> bool:
    """Return whether the attempt that the item is about still works."""
    attempt = store.attempts.get(item.attempt_id) if item.attempt_id else None
    return attempt is not None and attempt.status != "ended" and attempt.phase in WORKER_PHASES


def _duration_text(seconds: float) -> str:
    return count_of(round(seconds / 60), "minute") if seconds >= 90 else count_of(round(seconds), "second")
