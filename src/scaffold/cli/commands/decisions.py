"""`approve`, `reject`, `answer`: the decisions about what waits in the inbox.

Not beside `inbox`, which only reads: what stores a decision loads many more modules.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import click

from scaffold.cli.render.terminal.text_layout import UNLIMITED, layout_for
from scaffold.core.errors import UsageError
from scaffold.core.model import DecisionScope, InboxVerdict
from scaffold.core.printable_text import utf8_safe
from scaffold.orchestrator.user_control.inbox_decisions import DECISION_HOURS, InboxDecision, decide_items
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
    lines = list[str]()
    for each in decided:
        item = each.item
        again, first = f"{item.kind} {item.id} was already {item.state}", f"{item.state} {item.id}: "
        lines += layout.prose("", again if each.repeated else first + brief(item.text, UNLIMITED), hang=2)
    # A repeated decision changes nothing, so its words are lost; the user should know.
    unused = any(each.repeated and decision.words not in {None, each.item.answer} for each in decided)
    lines += [UNUSED_WORDS] if unused else []
    for run_id in dict.fromkeys(each.item.run_id for each in decided):
        run = reader.store.runs.get(run_id)
        if run is not None and is_executed(run):
            lines.append(f"  run {run_id} continues")
        elif run is not None and display_status(run) in {"paused", "interrupted"}:
            lines.append(f"  continue with `scaffold resume {run_id}`")
    if left := len(reader.store.inbox.open()):
        lines.append(f"  {left} more: `scaffold inbox`")
    click.echo("\n".join(lines))
