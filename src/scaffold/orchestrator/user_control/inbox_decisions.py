"""What a human tells a run: decisions about inbox items, and messages to the agent of an action."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from scaffold.core.change_approval import subject_of
from scaffold.core.errors import IllegalTransition, UsageError
from scaffold.core.model import Action, Attempt, DecisionScope, InboxItem, InboxVerdict, ProcessIdentity, Run
from scaffold.core.printable_text import printable, utf8_safe
from scaffold.core.states import WORKER_PHASES, Cancelled, Completed, Skipped, status_of
from scaffold.plan.failures.answers import CHOICES, ChosenAnswer, chosen_answer
from scaffold.run.context import RunContext
from scaffold.run.failures.escalation_question import apply_failure_answer, is_about_failure
from scaffold.run.failures.soft_timeouts import is_about_soft_timeout, is_asked_in_time
from scaffold.run.notices import HUMAN
from scaffold.run.returned_comments import send_drafts
from scaffold.store.database import Store
from scaffold.store.run.inbox_items import DECISIONS
from scaffold.views.text_format import brief
from scaffold.views.waiting import item_choices
from scaffold.worker.agent.incoming_messages import MAX_MESSAGE_CHARS

DECISION_HOURS = 24
"""How long an approval or a rejection holds unless the user says otherwise."""
WORDS_CELLS = 60
"""How much of an invalid answer is quoted."""
DECISION_LIFETIME = timedelta(hours=DECISION_HOURS)
SEE_TASKS = "`scaffold tasks` shows every action."


class InboxDecision(Struct, frozen=True, kw_only=True):
    """A human's decision about items of the inbox."""

    to: InboxVerdict
    words: str | None
    """The answer, or the reason of an approval or a rejection."""
    scope: DecisionScope = "run"
    valid_until: datetime | None = None
    """None: no time limit."""


class DecidedItem(Struct, frozen=True):
    """A decided item, and whether it already had the same decision."""

    item: InboxItem
    repeated: bool


def decide_items(store: Store, names: Sequence[str], decision: InboxDecision) -> tuple[DecidedItem, ...]:
    """Decide the items whose ids start with `names`, all or none, and return each once.

    Repeating a decision changes nothing. Raises UsageError if a name matches no item or several, or if the decision is
    invalid for the item; IllegalTransition if the item was decided otherwise, withdrawn or has expired.
    """
    with store.transaction(durable=True):
        ids = dict.fromkeys(_find_item(store, name).id for name in names)
        return tuple(_decide_item(store, _require_item(store, item_id), decision) for item_id in ids)


def ask_at_terminal(store: Store, items: Collection[str], terminal: ProcessIdentity) -> None:
    """Store which open items a process asks at its terminal, replacing earlier ones; the run waits for them."""
    with store.transaction():
        store.inbox.ask_at_terminal(items, terminal)


def _find_item(store: Store, name: str) -> InboxItem:
    found = store.inbox.by_prefix(name) if name else ()
    if len(found) == 1:
        return found[0]
    known = ", ".join(item.id for item in (found or store.inbox.open())[:5]) or "none"
    problem = "fits several items" if found else "is not an item of the inbox"
    listed = "Matching items" if found else "Open items"
    raise UsageError(f"`{printable(name)}` {problem}", f"{listed}: {known}. `scaffold inbox --all` shows all items.")


def _decide_item(store: Store, item: InboxItem, decision: InboxDecision) -> DecidedItem:
    title = f"{item.kind} {item.id}"
    if decision.to not in DECISIONS[item.kind]:
        raise UsageError(
            f"{title} cannot be {decision.to}", f"Decide with `{'` or `'.join(item_choices(item).values())}`."
        )
    if item.state == decision.to and (decision.to != "answered" or item.answer == decision.words):
        return DecidedItem(item, repeated=True)
    if item.state == "expired":
        fix = f"If it is still needed, a running run asks again; otherwise use `scaffold resume {item.run_id}`."
        raise IllegalTransition(f"{title} is already {item.state}", fix)
    if item.state != "open":
        fix = "`scaffold inbox --all` shows the decision and its time."
        raise IllegalTransition(f"{title} is already {item.state}", fix)
    if is_about_soft_timeout(item) and not is_asked_in_time(store, item):
        raise IllegalTransition(f"{title} is about an attempt that has ended", "`scaffold tasks` shows how.")
    if (
        decision.to == "approved"
        and subject_of(item)
        and item.action_id
        and store.review_comments.drafts(item.action_id)
    ):
        fix = (
            f"Send them with `scaffold reject {item.id}`, or take each back with `scaffold review ACTION --discard N`."
        )
        raise UsageError(f"comments of yours on the change of {title} were not sent", fix)
    chosen = _require_choice(item, decision)
    store.inbox.decide(
        item.id, decision.to, answer=decision.words, scope=decision.scope, valid_until=decision.valid_until
    )
    if chosen is not None and is_about_failure(item):
        apply_failure_answer(store, item, chosen)
    action = store.actions.get(item.action_id) if item.action_id and subject_of(item) else None
    if action is not None and decision.to == "rejected":
        send_drafts(store, action, "rejection")
    return DecidedItem(_require_item(store, item.id), repeated=False)


def _require_choice(item: InboxItem, decision: InboxDecision) -> ChosenAnswer | None:
    """Return the chosen answer; None for an item without choices. Raises UsageError for an invalid answer."""
    choices = item.detail.get(CHOICES)
    if not choices:
        return None
    chosen = chosen_answer(choices, decision.words or "")
    if chosen is None:
        what = f"`{printable(brief(decision.words or '', WORDS_CELLS))}` is no answer to {item.kind} {item.id}"
        words = "`, `".join(choices)
        raise UsageError(what, f"Begin it with `{words}`; `scaffold inbox` says what they mean.")
    return chosen


def _require_item(store: Store, item_id: str) -> InboxItem:
    item = store.inbox.get(item_id)
    if item is None:
        raise LookupError(item_id)
    return item


def send_message(context: RunContext, run: Run, action: Action, text: str) -> Attempt | None:
    """Send the text, without secrets, to the current and all later attempts of an action.

    Returns the current attempt; None if no agent is working on the action. Raises UsageError if the text is empty or
    too long, or if no agent will ever read it.
    """
    message = utf8_safe(text).strip()
    if not message:
        raise UsageError("the message is empty", "Add the text after the action, or pipe it in: `... | send ACTION -`.")
    if len(message) > MAX_MESSAGE_CHARS:
        what = f"the message is longer than {MAX_MESSAGE_CHARS:,} characters"
        raise UsageError(what, "Put it into a file that the agent can read, and send the name of the file.")

    require_deliverable(context, run, action)
    with context.store.transaction(durable=True):
        context.store.messages.send(
            run.id, sender=HUMAN, recipient=action.id, body={"text": context.redactor.clean(message)}
        )
    attempts = context.store.attempts.for_action(action.id)
    is_read = attempts and attempts[-1].status != "ended" and attempts[-1].phase in WORKER_PHASES
    return attempts[-1] if is_read else None


def require_deliverable(context: RunContext, run: Run, action: Action) -> None:
    """Raise UsageError if no agent will ever read a message to the action."""
    if isinstance(run.state, Completed | Cancelled):
        raise UsageError(f"run {run.id} is {status_of(run.state)} and reads no more messages", "Start a new run.")
    if isinstance(action.state, Completed | Cancelled | Skipped):
        raise UsageError(f"`{action.key}` is {status_of(action.state)}; no agent is working on it any more", SEE_TASKS)
    if action.kind == "compound":
        keys = ", ".join(f"`{child.key}`" for child in context.store.actions.children(action.id)[:5])
        fix = f"Send the message to one of its actions: {keys}." if keys else SEE_TASKS
        raise UsageError(f"`{action.key}` is a compound; agents work on its actions only", fix)
