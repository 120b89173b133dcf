"""`inbox`: what waits for a human."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from scaffold.cli.commands.options import json_option, pageable
from scaffold.cli.render.changes.waiting_change_text import change_json, change_lines
from scaffold.cli.render.inbox_text import item_text
from scaffold.cli.render.terminal.style import print_json, print_note
from scaffold.cli.render.terminal.text_layout import layout_for, print_text
from scaffold.core.knowledge import MEMORIES, NOTED_IN, Chunk, ChunkFilter
from scaffold.core.model import InboxItem
from scaffold.core.printable_text import one_line, printable
from scaffold.host.user_dirs import user_dirs
from scaffold.host.wall_clock import WallClock
from scaffold.store.user_store import UserStore, user_database
from scaffold.views.changes.waiting_change import WaitingChange, read_waiting_change
from scaffold.views.run_view import RequestersByItem, requesters_by_item
from scaffold.views.store_reader import StoreReader, store_reader_if_any

UNCONFIRMED = ChunkFilter(states=("unconfirmed",))
MOST_NOTED = 20


@click.command()
@click.option("--all", "everything", is_flag=True, help="Include decided, expired and withdrawn items.")
@json_option
@pageable
def inbox(*, everything: bool, as_json: bool) -> None:
    """Show what waits for you, oldest first: the request, its reason, and the commands that decide.

    After these, what agents have noted about you, which counts in other folders once you confirm it.
    """
    noted = _noted_memories()
    with store_reader_if_any(Path.cwd(), os.environ, show=print_note) as reader:
        items = () if reader is None else reader.store.inbox.all() if everything else reader.store.inbox.open()
        runs = dict.fromkeys(item.run_id for item in items)
        actions = [action for run in runs for action in reader.store.actions.for_run(run)] if reader else []
        who = requesters_by_item(items, actions)
        if as_json:
            found = [_item_json(item, who, _open_change(reader, item)) for item in items]
            names = ("id", "text", "source", "created_at")
            memories = [
                {**{name: getattr(each, name) for name in names}, "noted_in": each.meta.get(NOTED_IN)} for each in noted
            ]
            print_json({"inbox": found, "memories": memories})
        elif reader is None or not items:
            if not noted:
                print_text("The inbox is empty." if everything else "Nothing is waiting for you.")
        else:
            now, layout = reader.clock.now(), layout_for(sys.stdout)
            texts = (
                item_text(item, who[item.id], now, layout, change_lines(_open_change(reader, item), layout))
                for item in items
            )
            click.echo("\n\n".join(texts))
    if not as_json:
        for each in noted:
            print_text("\n".join(_memory_lines(each)))


def _noted_memories() -> Sequence[Chunk]:
    path = user_database(user_dirs().data)
    if not path.exists():
        return ()
    with closing(UserStore.open(path, clock=WallClock(), create=False)) as user:
        return user.knowledge.chunks.newest(MEMORIES, UNCONFIRMED, most=MOST_NOTED)


def _memory_lines(chunk: Chunk) -> Iterator[str]:
    folder = printable(chunk.meta.get(NOTED_IN, "another folder"))
    yield f"memory {chunk.id} of yours, noted by {chunk.source} in {folder}"
    yield f"  {one_line(chunk.text)}"
    yield f"  scaffold memory confirm {chunk.id} | scaffold memory forget {chunk.id}"


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
