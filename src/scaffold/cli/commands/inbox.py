"""`inbox`: what waits for a human."""

import os
import sys
from pathlib import Path
from typing import Any

import click

from scaffold.cli.commands.options import json_option, pageable
from scaffold.cli.render.changes.waiting_change_text import change_json, change_lines
from scaffold.cli.render.inbox_text import item_text
from scaffold.cli.render.terminal.style import print_json, print_note
from scaffold.cli.render.terminal.text_layout import layout_for, print_text
from scaffold.core.model import InboxItem
from scaffold.views.changes.waiting_change import WaitingChange, read_waiting_change
from scaffold.views.run_view import RequestersByItem, requesters_by_item
from scaffold.views.store_reader import StoreReader, store_reader_if_any


@click.command()
@click.option("--all", "everything", is_flag=True, help="Include decided, expired and withdrawn items.")
@json_option
@pageable
def inbox(*, everything: bool, as_json: bool) -> None:
    """Show what waits for you, oldest first: the request, its reason, and the commands that decide."""
    with store_reader_if_any(Path.cwd(), os.environ, show=print_note) as reader:
        items = () if reader is None else reader.store.inbox.all() if everything else reader.store.inbox.open()
        runs = dict.fromkeys(item.run_id for item in items)
        actions = [action for run in runs for action in reader.store.actions.for_run(run)] if reader else []
        who = requesters_by_item(items, actions)
        if as_json:
            print_json({"inbox": [_item_json(item, who, _open_change(reader, item)) for item in items]})
        elif reader is None or not items:
            print_text("The inbox is empty." if everything else "Nothing is waiting for you.")
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
