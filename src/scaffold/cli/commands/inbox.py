"""`inbox`, `approve`, `reject`, `answer`: what waits for a human, and the decisions about it."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import click

from scaffold.cli.commands.options import json_option, pageable
from scaffold.cli.render.changes.waiting_change_text import change_json, change_lines
from scaffold.cli.render.inbox_text import item_text
from scaffold.cli.render.terminal.style import print_json
from scaffold.cli.render.terminal.text_layout import UNLIMITED, layout_for, print_text
from scaffold.core.errors import UsageError
from scaffold.core.model import DecisionScope, InboxItem, InboxVerdict
from scaffold.core.printable_text import utf8_safe
from scaffold.orchestrator.user_control.inbox_decisions import DECISION_HOURS, DecidedItem, InboxDecision, decide_items
from scaffold.views.changes.waiting_change import WaitingChange, read_waiting_change
from scaffold.views.run_view import RequestersByItem, requesters_by_item
from scaffold.views.store_reader import StoreReader, display_status, is_executed, store_reader_if_any
from scaffold.views.text_format import brief

Command = TypeVar("Command", bound=Callable[..., object])
MAX_HOURS = 24 * 365
UNUSED_WORDS = "  what you say now was not stored; `scaffold send ACTION TEXT` tells the agent"
ids_argument = click.argument("names", metavar="ID...", nargs=-1, required=True)
why_option = click.option("--why", metavar="TEXT", help="Your reason; the agent reads it.")

hours_option = click.option(
    "--hours",
    type=click.IntRange(1, MAX_HOURS),
    default=DECISION_HOURS,
    show_default=True,
    help="How long the decision applies.",
)

NOTHING = "Nothing is waiting for you."
NOTHING_EVER = "The inbox is empty."


@click.command()
@click.option("--all", "everything", is_flag=True, help="Include decided, expired and withdrawn items.")
@json_option
@pageable
def inbox(*, everything: bool, as_json: bool) -> None:
    """Show what waits for you, oldest first: the request, its reason, and the commands that decide."""
    with store_reader_if_any(Path.cwd(), os.environ) as reader:
        items = () if reader is None else reader.store.inbox.all() if everything else reader.store.inbox.open()
        runs = dict.fromkeys(item.run_id for item in items)
        actions = [action for run in runs for action in reader.store.actions.of_run(run)] if reader else []
        who = requesters_by_item(items, actions)
        if as_json:
            print_json({"inbox": [_item_json(item, who, _open_change(reader, item)) for item in items]})
        elif reader is None or not items:
            print_text(NOTHING_EVER if everything else NOTHING)
        else:
            now, layout = reader.clock.now(), layout_for(sys.stdout)
            texts = (
                item_text(item, who[item.id], now, layout, change_lines(_open_change(reader, item), layout))
                for item in items
            )
            click.echo("\n\n".join(texts))


def _open_change(reader: StoreReader | None, item: InboxItem) -> WaitingChange | None:
    return read_waiting_change(reader.store, item) if reader is not None and item.state == "open" else None


def _item_json(item: InboxItem, who: RequestersByItem, change: WaitingChange | None) -> dict[str, Any]:
    return {
        "id": item.id,
        "run": item.run_id,
        "kind": item.kind,
        "state": item.state,
        "text": item.text,
        "detail": item.detail,
        "goal_id": item.goal_id,
        "actions": who[item.id],
        "answer": item.answer,
        "scope": item.scope,
        "created_at": item.created_at,
        "expires_at": item.expires_at,
        "decided_at": item.decided_at,
        "valid_until": item.valid_until,
        "change": change_json(change) if change else None,
    }


def scope_option(default: DecisionScope) -> Callable[[Command], Command]:
    """Return the option for what a decision applies to."""
    return click.option(
        "--for",
        "scope",
        type=click.Choice(["call", "action", "goal", "run"]),
        default=default,
        show_default=True,
        help="What the decision applies to: this request, or identical ones of the action, the goal or the run, too.",
    )


@click.command()
@ids_argument
@why_option
@scope_option("call")
@hours_option
def approve(names: Sequence[str], *, why: str | None, scope: DecisionScope, hours: int) -> None:
    """Approve the request ID, exactly as `scaffold inbox` shows it; the actions that wait for it continue."""
    _decide_for_hours(names, "approved", why, scope, hours)


@click.command()
@ids_argument
@why_option
@scope_option("run")
@hours_option
def reject(names: Sequence[str], *, why: str | None, scope: DecisionScope, hours: int) -> None:
    """Reject the request ID; its agent reads your reason and looks for another way."""
    _decide_for_hours(names, "rejected", why, scope, hours)


@click.command()
@click.argument("name", metavar="ID")
@click.argument("text")
def answer(name: str, text: str) -> None:
    """Answer the question ID with TEXT; the agent that asked reads it and continues."""
    if not text.strip():
        raise UsageError("the answer is empty", "Write what the agent should know.")
    with _open_reader() as reader:
        _apply_decision(reader, [name], InboxDecision(to="answered", words=utf8_safe(text)))


def _decide_for_hours(
    names: Sequence[str], to: InboxVerdict, why: str | None, scope: DecisionScope, hours: int
) -> None:
    with _open_reader() as reader:
        until = reader.clock.now() + timedelta(hours=hours)
        words = utf8_safe(why) if why else None  # the shell may pass bytes that are not UTF-8
        _apply_decision(reader, names, InboxDecision(to=to, words=words, scope=scope, valid_until=until))


@contextmanager
def _open_reader() -> Iterator[StoreReader]:
    with store_reader_if_any(Path.cwd(), os.environ) as reader:
        if reader is None:
            raise UsageError("the inbox is empty: there is no run in this repository yet", "See `scaffold status`.")
        yield reader


def _apply_decision(reader: StoreReader, names: Sequence[str], decision: InboxDecision) -> None:
    decided = decide_items(reader.store, names, decision)
    layout = layout_for(sys.stdout)
    told = (line for each in decided for line in layout.prose("", _decided_text(each), hang=2))
    # A repeated decision changes nothing, so its words are lost; the user should know.
    unused = any(each.repeated and decision.words not in {None, each.item.answer} for each in decided)
    click.echo("\n".join([*told, *([UNUSED_WORDS] if unused else []), *_next_steps(reader, decided)]))


def _decided_text(decided: DecidedItem) -> str:
    item = decided.item
    if decided.repeated:
        return f"{item.kind} {item.id} was already {item.state}"
    return f"{item.state} {item.id}: {brief(item.text, UNLIMITED)}"


def _next_steps(reader: StoreReader, decided: Sequence[DecidedItem]) -> Iterator[str]:
    for run_id in dict.fromkeys(each.item.run_id for each in decided):
        run = reader.store.runs.get(run_id)
        if run is not None and is_executed(run):
            yield f"  run {run_id} continues"
        elif run is not None and display_status(run) in {"paused", "interrupted"}:
            yield f"  continue with `scaffold resume {run_id}`"
    if left := len(reader.store.inbox.open()):
        yield f"  {left} more: `scaffold inbox`"
