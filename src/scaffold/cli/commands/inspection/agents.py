"""`agents`: every process of a run."""

import os
import sys
from pathlib import Path

import click

from scaffold.cli.commands.options import json_option, pageable, run_option
from scaffold.cli.render.goals_tasks_agents import format_agents, held_back_lines
from scaffold.cli.render.status_text import no_run_text
from scaffold.cli.render.terminal.style import print_json
from scaffold.cli.render.terminal.text_layout import layout_for, print_text
from scaffold.run.resources.attempt_resources import resources_in_use
from scaffold.views.agent_list import AgentRow
from scaffold.views.held_back import read_held_back
from scaffold.views.run_json import agent_json, held_back_json
from scaffold.views.run_view import read_processes
from scaffold.views.store_reader import find_run_if_any, store_reader_if_any


@click.command()
@run_option
@json_option
@pageable
def agents(run_name: str | None, *, as_json: bool) -> None:
    """Show every process of a run - owner, supervisors, workers - with its work and its cost."""
    with store_reader_if_any(Path.cwd(), os.environ) as reader:
        run = find_run_if_any(reader, run_name)
        if reader is None or run is None:
            _show_nothing(as_json=as_json)
            return
        rows, held_back = read_processes(reader, run), read_held_back(reader, run)
        if as_json:
            waiting = [{"action": each.key, **(held_back_json(each.why) or {})} for each in held_back]
            print_json({"run": run.id, "agents": [_row_json(row) for row in rows], "held_back": waiting})
        else:
            layout = layout_for(sys.stdout)
            lines = (format_agents(rows, reader.clock.now(), layout), *held_back_lines(held_back, layout))
            click.echo("\n".join(lines))


def _row_json(row: AgentRow) -> dict[str, object]:
    return {**agent_json(row), **resources_in_use(row.worktree).fields}


def _show_nothing(*, as_json: bool) -> None:
    if as_json:
        print_json({"run": None, "agents": [], "held_back": []})
    else:
        print_text(no_run_text())
