"""`approve`, `reject`, `answer`: a human decides, and whoever waited goes on."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import click
from msgspec import Struct

from scaffold.core.errors import IllegalTransition, UsageError
from scaffold.core.model import DecisionScope, InboxItem, InboxVerdict
from scaffold.core.printable_text import printable, utf8_safe
from scaffold.store.database import Store
from scaffold.store.run.inbox import DECISIONS
from scaffold.views.inbox import decision_commands
from scaffold.views.store_reader import StoreReader, display_status, store_reader_if_any
from scaffold.views.text_format import WIDTH, clip

DEFAULT_HOURS = 24
MAX_HOURS = 24 * 365

ids_argument = click.argument("names", metavar="ID...", nargs=-1, required=True)
why_option = click.option("--why", metavar="TEXT", help="Your reason; the agent reads it.")
scope_option = click.option(
    "--for",
    "scope",
    type=click.Choice(["run", "goal", "action"]),
    default="run",
    show_default=True,
    help="Who else need not ask exactly this again.",
)
hours_option = click.option(
    "--hours", type=click.IntRange(1, MAX_HOURS), default=DEFAULT_HOURS, show_default=True, help="How long it holds."
)


class InboxDecision(Struct, frozen=True, kw_only=True):
    """What a human says about items of the inbox."""

    to: InboxVerdict
    words: str | None
    scope: DecisionScope = "run"
    valid_until: datetime | None = None
    """None means for good."""


@click.command()
@ids_argument
@why_option
@scope_option
@hours_option
def approve(names: Sequence[str], *, why: str | None, scope: DecisionScope, hours: int) -> None:
    """Allow what ID asks for, exactly as `scaffold inbox` shows it; whoever waits for it goes on."""
    _decide_for_hours(names, "approved", why, scope, hours)


@click.command()
@ids_argument
@why_option
@scope_option
@hours_option
def reject(names: Sequence[str], *, why: str | None, scope: DecisionScope, hours: int) -> None:
    """Refuse what ID asks for; its agent is told, with your reason, and looks for another way."""
    _decide_for_hours(names, "rejected", why, scope, hours)


@click.command()
@click.argument("name", metavar="ID")
@click.argument("text")
def answer(name: str, text: str) -> None:
    """Answer the question ID with TEXT; the agent that asked reads it and goes on."""
    if not text.strip():
        raise UsageError("the answer is empty", "Say what the agent is to know.")
    with _reader() as reader:
        _apply_decision(reader, [name], InboxDecision(to="answered", words=utf8_safe(text)))


def _decide_for_hours(
    names: Sequence[str], to: InboxVerdict, why: str | None, scope: DecisionScope, hours: int
) -> None:
    with _reader() as reader:
        until = reader.clock.now() + timedelta(hours=hours)
        words = utf8_safe(why) if why else None
        _apply_decision(reader, names, InboxDecision(to=to, words=words, scope=scope, valid_until=until))


@contextmanager
def _reader() -> Iterator[StoreReader]:
    with store_reader_if_any(Path.cwd(), os.environ) as reader:
        if reader is None:
            raise UsageError("nothing waits for you: there is no run in this repository yet", "See `scaffold status`.")
        yield reader


def _apply_decision(reader: StoreReader, names: Sequence[str], ruling: InboxDecision) -> None:
    """Decide about all items or, where one of them cannot be decided so, about none."""
    with reader.store.transaction(durable=True):
        items = dict.fromkeys(_find(reader.store, name).id for name in names)
        told = [_decide(reader.store, item_id, ruling) for item_id in items]
    click.echo("\n".join([*told, *_next(reader, tuple(items))]))


def _find(store: Store, name: str) -> InboxItem:
    """Return the item whose id begins with `name`; UsageProblem if there is none, or several."""
    found = store.inbox.by_prefix(name) if name else ()
    if len(found) == 1:
        return found[0]
    known = ", ".join(item.id for item in (found or store.inbox.open())[:5]) or "nothing"
    problem = "fits several items" if found else "is no item of the inbox"
    meant = "It could be" if found else "What waits for you:"
    raise UsageError(f"`{printable(name)}` {problem}", f"{meant} {known}. `scaffold inbox --all` shows everything.")


def _decide(store: Store, item_id: str, ruling: InboxDecision) -> str:
    """Close the item and return what was done in words; saying the same twice changes nothing."""
    item = store.inbox.get(item_id)
    if item is None:
        raise LookupError(item_id)
    title = f"{item.kind} {item.id}"
    if ruling.to not in DECISIONS[item.kind]:
        raise UsageError(f"{title} cannot be {ruling.to}", f"Decide with `{'` or `'.join(decision_commands(item))}`.")
    if item.state == ruling.to and (ruling.to != "answered" or item.answer == ruling.words):
        return f"{title} was {ruling.to} already"
    if item.state != "open":
        raise IllegalTransition(f"{title} is {item.state} already", _next_step(item))
    store.inbox.decide(item.id, ruling.to, answer=ruling.words, scope=ruling.scope, valid_until=ruling.valid_until)
    return f"{ruling.to} {item.id}: {clip(item.text, WIDTH - len(ruling.to) - len(item.id) - 3)}"


def _next_step(item: InboxItem) -> str:
    if item.state == "expired":
        return f"Who still needs it asks anew: a run at work by itself, others with `scaffold resume {item.run_id}`."
    return "`scaffold inbox --all` shows what was decided, and when."


def _next(reader: StoreReader, items: Sequence[str]) -> Iterator[str]:
    """Yield what happens now, and what there is to do."""
    decided = [item for item in map(reader.store.inbox.get, items) if item is not None]
    for run_id in dict.fromkeys(item.run_id for item in decided):
        run = reader.store.runs.get(run_id)
        if run is not None and display_status(run) == "active":
            yield f"  run {run_id} goes on by itself"
        elif run is not None and display_status(run) in {"paused", "interrupted"}:
            yield f"  go on with `scaffold resume {run_id}`"
    if left := len(reader.store.inbox.open()):
        yield f"  {left} more: `scaffold inbox`"
