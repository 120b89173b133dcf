"""The inbox of a run in the REPL: what waits for you, and how to decide it without leaving the conversation."""

import sys
from collections.abc import Sequence
from typing import Literal

from scaffold.cli.render.changes.waiting_change_text import change_lines
from scaffold.cli.render.inbox_text import item_text
from scaffold.cli.render.terminal.text_layout import UNLIMITED, layout_for
from scaffold.core.errors import UsageError
from scaffold.core.printable_text import count_of, utf8_safe
from scaffold.orchestrator.user_control.inbox_decisions import DECISION_LIFETIME, InboxDecision, decide_items
from scaffold.run.context import RunContext
from scaffold.views.changes.waiting_change import read_waiting_change
from scaffold.views.run_view import requesters_by_item
from scaffold.views.text_format import brief

NOTHING = "Nothing is waiting for you."
Word = Literal["approve", "reject", "answer"]


def inbox_text(context: RunContext) -> str:
    """Return what waits for a human in this repository, each item in full, with the commands of the REPL."""
    store = context.store
    items = store.inbox.open()
    if not items:
        return NOTHING
    actions = [action for run in dict.fromkeys(item.run_id for item in items) for action in store.actions.of_run(run)]
    who, now, layout = requesters_by_item(items, actions), context.clock.now(), layout_for(sys.stdout)
    changes = {item.id: change_lines(read_waiting_change(store, item), layout) for item in items}
    texts = [item_text(item, who[item.id], now, layout, changes[item.id]) for item in items]
    return "\n\n".join([*texts, "Here: /approve ID [WHY]   /reject ID [WHY]   /answer ID TEXT"])


def decide(context: RunContext, word: Word, arguments: Sequence[str]) -> str:
    """Decide an item as the command of the same name does, and return what happened."""
    if not arguments:
        raise UsageError(f"/{word} needs the ID of an item", "/inbox shows what is waiting.")
    name, words = arguments[0], utf8_safe(" ".join(arguments[1:]).strip())
    if word == "answer":
        if not words:
            raise UsageError("the answer is empty", "Write what the agent should know: /answer ID TEXT.")
        decision = InboxDecision(to="answered", words=words)
    else:
        until = context.clock.now() + DECISION_LIFETIME
        is_yes = word == "approve"
        decision = InboxDecision(
            to="approved" if is_yes else "rejected",
            words=words or None,
            scope="call" if is_yes else "run",
            valid_until=until,
        )
    (decided,) = decide_items(context.store, [name], decision)
    left = len(context.store.inbox.open())
    more = f"; {count_of(left, 'more item')}: /inbox" if left else ""
    if decided.repeated:
        return f"{decided.item.kind} {decided.item.id} was already {decided.item.state}{more}"
    return f"{decided.item.state} {decided.item.id}: {brief(decided.item.text, UNLIMITED)}{more}"
