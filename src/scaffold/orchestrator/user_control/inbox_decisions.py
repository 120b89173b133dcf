"""Record what a human decides about items of the inbox."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from scaffold.core.errors import IllegalTransition, UsageError
from scaffold.core.model import DecisionScope, InboxItem, InboxVerdict, ProcessIdentity
from scaffold.core.printable_text import printable
from scaffold.plan.failures.answers import CHOICES, ChosenAnswer, chosen_answer
from scaffold.run.failures.escalation_question import apply_failure_answer, is_about_failure
from scaffold.run.failures.soft_timeouts import is_about_soft_timeout, is_asked_in_time
from scaffold.store.database import Store
from scaffold.store.run.inbox_items import DECISIONS
from scaffold.views.run_view import decision_commands
from scaffold.views.text_format import brief

DECISION_HOURS = 24
"""How long an approval or a rejection holds unless the user says otherwise."""
WORDS_CELLS = 60
"""How much of a wrong answer is repeated."""
DECISION_LIFETIME = timedelta(hours=DECISION_HOURS)


class InboxDecision(Struct, frozen=True, kw_only=True):
    """A human's decision about items of the inbox."""

    to: InboxVerdict
    words: str | None
    """The answer, or the reason of an approval or a rejection."""
    scope: DecisionScope = "run"
    valid_until: datetime | None = None
    """None: without a time limit."""


class DecidedItem(Struct, frozen=True):
    """An item with the decision, and whether it had been decided in the same way before."""

    item: InboxItem
    repeated: bool


def decide_items(store: Store, names: Sequence[str], decision: InboxDecision) -> tuple[DecidedItem, ...]:
    """Decide the items whose ids start with `names`, all or none, and return each once.

    Repeating a decision changes nothing. Raises UsageError if a name fits no item or several, or if the decision does
    not suit the kind of the item; IllegalTransition if the item was decided otherwise, withdrawn or has expired.
    """
    with store.transaction(durable=True):
        ids = dict.fromkeys(_find_item(store, name).id for name in names)
        return tuple(_decide_item(store, _require_item(store, item_id), decision) for item_id in ids)


def ask_at_terminal(store: Store, items: Collection[str], terminal: ProcessIdentity) -> None:
    """Store which open items a process asks at its terminal, in place of earlier ones; the run waits for them."""
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
        raise UsageError(f"{title} cannot be {decision.to}", f"Decide with `{'` or `'.join(decision_commands(item))}`.")
    if item.state == decision.to and (decision.to != "answered" or item.answer == decision.words):
        return DecidedItem(item, repeated=True)
    if item.state != "open":
        raise IllegalTransition(f"{title} is already {item.state}", _next_step(item))
    if is_about_soft_timeout(item) and not is_asked_in_time(store, item):
        raise IllegalTransition(f"{title} is about an attempt that has ended", "`scaffold tasks` shows how.")
    chosen = _require_choice(item, decision)
    store.inbox.decide(
        item.id, decision.to, answer=decision.words, scope=decision.scope, valid_until=decision.valid_until
    )
    if chosen is not None and is_about_failure(item):
        apply_failure_answer(store, item, chosen)
    return DecidedItem(_require_item(store, item.id), repeated=False)


def _require_choice(item: InboxItem, decision: InboxDecision) -> ChosenAnswer | None:
    """Return the choice that was made; None for an item without choices. Raises UsageError if it is none of them."""
    choices = item.detail.get(CHOICES)
    if not choices:
        return None
    chosen = chosen_answer(choices, decision.words or "")
    if chosen is None:
        what = f"`{printable(brief(decision.words or '', WORDS_CELLS))}` is no answer to {item.kind} {item.id}"
        words = "`, `".join(choices)
        raise UsageError(what, f"Begin it with `{words}`; `scaffold inbox` says what they mean.")
    return chosen


def _next_step(item: InboxItem) -> str:
    if item.state == "expired":
        return f"If it is still needed, a running run asks again; otherwise use `scaffold resume {item.run_id}`."
    return "`scaffold inbox --all` shows the decision and its time."


def _require_item(store: Store, item_id: str) -> InboxItem:
    item = store.inbox.get(item_id)
    if item is None:
        raise LookupError(item_id)
    return item
