"""`agents`: every process of a run, for people and for scripts."""

import os
from pathlib import Path
from typing import Any

import click

from scaffold.cli.lookup import run_option
from scaffold.cli.overview import nothing_yet
from scaffold.cli.reader import find_run, no_run_yet, reader_if_any
from scaffold.cli.roster import Member, Roster
from scaffold.cli.screen import json_option, print_json
from scaffold.cli.views import agents_of


@click.command()
@run_option
@json_option
def agents(run_name: str | None, *, as_json: bool) -> None:
    """Show every process of a run: orchestrator, supervisors, workers, what each is at and what it costs."""
    with reader_if_any(Path.cwd(), os.environ) as reader:
        if reader is None or (run_name is None and reader.store.runs.latest() is None):
            if run_name:
                raise no_run_yet()
            _show_nothing(as_json=as_json)
            return
        run = find_run(reader, run_name)
        members = Roster(reader, run).processes()
        if as_json:
            print_json({"run": run.id, "agents": [_shape(member) for member in members]})
        else:
            click.echo(agents_of(members, reader.clock.now()))


def _show_nothing(*, as_json: bool) -> None:
    if as_json:
        print_json({"run": None, "agents": []})
    else:
        click.echo(nothing_yet())


def _shape(member: Member) -> dict[str, Any]:
    return {
        "role": member.role,
        "goal": member.goal,
        "action": member.action,
        "attempt": member.attempt,
        "pid": member.pid,
        "alive": member.alive,
        "agent_state": member.state,
        "phase": member.phase,
        "since": member.since,
        "tokens": member.usage.tokens,
        "cost_usd": member.usage.cost_usd,
        "waits_on": member.waits_on or None,
        "last_act": member.act and {"at": member.act.at, "text": member.act.text},
    }
