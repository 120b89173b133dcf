"""`inbox`: what waits for a human, in all runs of the repository."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from scaffold.cli.reader import Reader, reader_if_any
from scaffold.cli.screen import json_option, print_json
from scaffold.cli.waiting import Askers, askers, full
from scaffold.core.model import Action, InboxItem

NOTHING = "Nothing waits for you."
NOTHING_EVER = "Nothing ever waited for you."


@click.command()
@click.option("--all", "everything", is_flag=True, help="Also what was decided, has expired or is not needed any more.")
@json_option
def inbox(*, everything: bool, as_json: bool) -> None:
    """Show what waits for you, oldest first: who asks, exactly what for, why, and the commands that decide."""
    with reader_if_any(Path.cwd(), os.environ) as reader:
        items = () if reader is None else reader.store.inbox.all() if everything else reader.store.inbox.open()
        actions = _actions(reader, items)
        who = askers(items, actions)
        if as_json:
            print_json({"inbox": [_shape(item, who) for item in items]})
        elif reader is None or not items:
            click.echo(NOTHING_EVER if everything else NOTHING)
        else:
            click.echo("\n\n".join(full(item, who[item.id], reader.clock.now()) for item in items))


def _actions(reader: Reader | None, items: Sequence[InboxItem]) -> tuple[Action, ...]:
    runs = dict.fromkeys(item.run_id for item in items)
    return tuple(action for run in runs for action in reader.store.actions.of_run(run)) if reader else ()


def _shape(item: InboxItem, who: Askers) -> dict[str, Any]:
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
        "holds_until": item.holds_until,
    }
