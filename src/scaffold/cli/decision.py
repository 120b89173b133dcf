"""`approve`, `reject`, `answer`: a human decides, and whoever waited goes on."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import click
from msgspec import Struct

from scaffold.cli.reader import Reader, reader_if_any, shown_status
from scaffold.cli.safe import printable
from scaffold.cli.screen import WIDTH, clip
from scaffold.cli.waiting import commands
from scaffold.core.errors import IllegalMove, UsageProblem
from scaffold.core.legible import legible
from scaffold.core.model import Decision, InboxItem, Scope
from scaffold.store.database import Store
from scaffold.store.inbox import DECISIONS

HOURS = 24
MOST_HOURS = 24 * 365

ids = click.argument("names", metavar="ID...", nargs=-1, required=True)
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
    "--hours", type=click.IntRange(1, MOST_HOURS), default=HOURS, show_default=True, help="How long it holds."
)


class Ruling(Struct, frozen=True, kw_only=True):
    """What a human says about items of the inbox."""

    to: Decision
    words: str | None
    scope: Scope = "run"
    holds_until: datetime | None = None
    """None means for good."""


@click.command()
@ids
@why_option
@scope_option
@hours_option
def approve(names: Sequence[str], *, why: str | None, scope: Scope, hours: int) -> None:
    """Allow what ID asks for, exactly as `scaffold inbox` shows it; whoever waits for it goes on."""
    _rule_for_a_while(names, "approved", why, scope, hours)


@click.command()
@ids
@why_option
@scope_option
@hours_option
def reject(names: Sequence[str], *, why: str | None, scope: Scope, hours: int) -> None:
    """Refuse what ID asks for; its agent is told, with your reason, and looks for another way."""
    _rule_for_a_while(names, "rejected", why, scope, hours)


@click.command()
@click.argument("name", metavar="ID")
@click.argument("text")
def answer(name: str, text: str) -> None:
    """Answer the question ID with TEXT; the agent that asked reads it and goes on."""
    if not text.strip():
        raise UsageProblem("the answer is empty", "Say what the agent is to know.")
    with _reader() as reader:
        _rule(reader, [name], Ruling(to="answered", words=legible(text)))


def _rule_for_a_while(names: Sequence[str], to: Decision, why: str | None, scope: Scope, hours: int) -> None:
    with _reader() as reader:
        until = reader.clock.now() + timedelta(hours=hours)
        words = legible(why) if why else None
        _rule(reader, names, Ruling(to=to, words=words, scope=scope, holds_until=until))


@contextmanager
def _reader() -> Iterator[Reader]:
    with reader_if_any(Path.cwd(), os.environ) as reader:
        if reader is None:
            raise UsageProblem(
                "nothing waits for you: there is no run in this repository yet", "See `scaffold status`."
            )
        yield reader


def _rule(reader: Reader, names: Sequence[str], ruling: Ruling) -> None:
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
    raise UsageProblem(f"`{printable(name)}` {problem}", f"{meant} {known}. `scaffold inbox --all` shows everything.")


def _decide(store: Store, item_id: str, ruling: Ruling) -> str:
    """Close the item and return what was done in words; saying the same twice changes nothing."""
    item = store.inbox.get(item_id)
    if item is None:
        raise LookupError(item_id)
    title = f"{item.kind} {item.id}"
    if ruling.to not in DECISIONS[item.kind]:
        raise UsageProblem(f"{title} cannot be {ruling.to}", f"Decide with `{'` or `'.join(commands(item))}`.")
    if item.state == ruling.to and (ruling.to != "answered" or item.answer == ruling.words):
        return f"{title} was {ruling.to} already"
    if item.state != "open":
        raise IllegalMove(f"{title} is {item.state} already", _way_on(item))
    store.inbox.decide(item.id, ruling.to, answer=ruling.words, scope=ruling.scope, holds_until=ruling.holds_until)
    return f"{ruling.to} {item.id}: {clip(item.text, WIDTH - len(ruling.to) - len(item.id) - 3)}"


def _way_on(item: InboxItem) -> str:
    if item.state == "expired":
        return f"Who still needs it asks anew: a run at work by itself, others with `scaffold resume {item.run_id}`."
    return "`scaffold inbox --all` shows what was decided, and when."


def _next(reader: Reader, items: Sequence[str]) -> Iterator[str]:
    """Yield what happens now, and what there is to do."""
    decided = [item for item in map(reader.store.inbox.get, items) if item is not None]
    for run_id in dict.fromkeys(item.run_id for item in decided):
        run = reader.store.runs.get(run_id)
        if run is not None and shown_status(run) == "active":
            yield f"  run {run_id} goes on by itself"
        elif run is not None and shown_status(run) in {"paused", "interrupted"}:
            yield f"  go on with `scaffold resume {run_id}`"
    if left := len(reader.store.inbox.open()):
        yield f"  {left} more: `scaffold inbox`"
