"""`inbox`: what waits for a human."""

import os
import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import click
import msgspec

from scaffold.cli.commands.options import json_option, pageable
from scaffold.cli.render.changes.waiting_change_text import change_json, change_lines
from scaffold.cli.render.inbox_text import brief_lines, entry_text
from scaffold.cli.render.terminal.style import heading, print_json, print_note
from scaffold.cli.render.terminal.text_layout import layout_for, print_text
from scaffold.core.errors import UsageError
from scaffold.core.knowledge import NOTED_IN
from scaffold.core.model import InboxItem
from scaffold.core.printable_text import printable
from scaffold.host.startup import importing
from scaffold.host.wall_clock import WallClock
from scaffold.views.changes.waiting_change import WaitingChange, read_waiting_change
from scaffold.views.store_reader import StoreReader, store_reader_if_any
from scaffold.views.waiting import WaitingEntry, entry_json, read_items
from scaffold.views.waiting_of_user import read_waiting_everywhere, read_waiting_here

MOST_BRIEF = 100
"""Entries shown of one repository where those of all are."""


@click.command()
@click.argument("name", metavar="[ID]", required=False)
@click.option("--all", "everything", is_flag=True, help="Include decided, expired and withdrawn items.")
@click.option("--everywhere", is_flag=True, help="Show in short what waits in all your repositories.")
@json_option
@pageable
def inbox(name: str | None, *, everything: bool, everywhere: bool, as_json: bool) -> None:
    """Show what waits for you, or ID alone, oldest first: what it is, what it holds up, and the commands that decide.

    These are requests and questions of agents, runs that only you get on, finished work that you have not taken, and
    what agents have noted about you, which counts in other folders once you confirm it.
    """
    if everywhere and (everything or name is not None):
        raise UsageError(
            "`--all` and ID are about one repository", "Call `scaffold inbox` in it, without --everywhere."
        )
    if everywhere:
        _print_everywhere(as_json=as_json)
        return
    with store_reader_if_any(Path.cwd(), os.environ, show=print_note) as reader:
        entries = _not_taken(read_waiting_here(reader, WallClock()))
        if everything and reader is not None:
            rest = [entry for entry in entries if entry.item is None]
            items = read_items(reader, reader.store.inbox.all())
            entries = sorted([*items, *rest], key=lambda entry: entry.since)
        if name is not None:
            entries = _require_entry(name, entries)
        if as_json:
            _print_json(reader, entries)
        elif not entries:
            print_text("The inbox is empty." if everything else "Nothing is waiting for you.")
        else:
            now, layout = WallClock().now(), layout_for(sys.stdout)
            texts = (
                entry_text(entry, now, layout, change_lines(_change_of(reader, entry), layout)) for entry in entries
            )
            click.echo("\n\n".join(texts))


def _require_entry(name: str, entries: Sequence[WaitingEntry]) -> Sequence[WaitingEntry]:
    found = [entry for entry in entries if name and entry.id.startswith(name)]
    if not found:
        fix = "`scaffold inbox` shows what does; `scaffold inbox --all` also what was decided."
        raise UsageError(f"nothing that begins with `{printable(name)}` waits for you", fix)
    return found


def _print_everywhere(*, as_json: bool) -> None:
    clock = WallClock()
    found, unread = read_waiting_everywhere(clock, os.environ)
    entries = _not_taken(found)
    now, layout = clock.now(), layout_for(sys.stdout)
    if as_json:
        waiting = [entry_json(entry, now) for entry in entries]
        print_json({"waiting": waiting, "unread": [msgspec.to_builtins(each, enc_hook=str) for each in unread]})
        return
    if not entries:
        print_text("Nothing is waiting for you.")
    of_repository = groupby(sorted(entries, key=_repository_name), key=_repository_name)
    parts = [
        "\n".join([heading(printable(name)), *brief_lines([*own], now, layout, most=MOST_BRIEF)])
        for name, own in of_repository
    ]
    click.echo("\n\n".join(parts), nl=bool(parts))
    for each in unread:
        print_text(f"{each.repository} was not read: {each.why}", err=True)


def _not_taken(entries: Sequence[WaitingEntry]) -> Sequence[WaitingEntry]:
    if all(entry.work is None for entry in entries):
        return entries
    with importing():  # an event loop and git take longer to load than all the rest
        from scaffold.views.changes.taken_work import without_taken_now
    return without_taken_now(entries)


def _repository_name(entry: WaitingEntry) -> str:
    return str(entry.repository) if entry.repository else "about you"


def _change_of(reader: StoreReader | None, entry: WaitingEntry) -> WaitingChange | None:
    return read_waiting_change(reader.store, entry.item) if reader is not None else None


def _print_json(reader: StoreReader | None, entries: Sequence[WaitingEntry]) -> None:
    now = WallClock().now()
    items = [_item_json(entry.item, entry, _change_of(reader, entry)) for entry in entries if entry.item is not None]
    names = ("id", "text", "source", "created_at")
    noted = [entry.memory for entry in entries if entry.memory is not None]
    memories = [
        {**{name: getattr(each, name) for name in names}, "noted_in": each.meta.get(NOTED_IN)} for each in noted
    ]
    waiting = [entry_json(entry, now) for entry in entries if entry.item is None or entry.item.state == "open"]
    print_json({"inbox": items, "memories": memories, "waiting": waiting})


def _item_json(item: InboxItem, entry: WaitingEntry, change: WaitingChange | None) -> dict[str, Any]:
    return {
        "id": item.id,
        "run": item.run_id,
        "kind": item.kind,
        "state": item.state,
        "text": item.text,
        "detail": item.detail,
        "goal_id": item.goal_id,
        "actions": [*entry.asks],
        "answer": item.answer,
        "scope": item.scope,
        "created_at": item.created_at,
        "expires_at": item.expires_at,
        "decided_at": item.decided_at,
        "valid_until": item.valid_until,
        "change": change_json(change) if change else None,
    }
