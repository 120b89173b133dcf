"""`goals` and `tasks`: the goals and actions of a run with their evidence."""

import os
import sys
from pathlib import Path

import click

from scaffold.cli.commands.options import json_option, pageable, run_option
from scaffold.cli.render.goals_tasks_agents import format_goals, format_tasks
from scaffold.cli.render.status_text import no_run_text
from scaffold.cli.render.terminal.style import print_json
from scaffold.cli.render.terminal.text_layout import layout_for, print_text
from scaffold.core.model import Goal
from scaffold.views.name_lookup import find_goal
from scaffold.views.run_json import Json, action_json, fact_json, goal_json
from scaffold.views.run_view import RunView, read_run_view
from scaffold.views.store_reader import find_run_if_any, no_run_error, store_reader_if_any


@click.command()
@run_option
@json_option
@pageable
def goals(run_name: str | None, *, as_json: bool) -> None:
    """List the goals of a run with what holds, its evidence, and what is missing."""
    view, _ = _read_view(run_name, None)
    if as_json:
        shapes = [goal_json(view, goal) for goal in view.goals] if view else []
        print_json({"run": view.run.id if view else None, "goals": shapes})
    elif view is None:
        print_text(no_run_text())
    else:
        click.echo(format_goals(view, layout_for(sys.stdout)))


@click.command()
@click.argument("goal_name", metavar="[GOAL]", required=False)
@run_option
@json_option
@pageable
def tasks(goal_name: str | None, run_name: str | None, *, as_json: bool) -> None:
    """Show the actions of a run, or of one GOAL, as a tree: status, effects with their evidence, results."""
    view, chosen = _read_view(run_name, goal_name)
    if as_json:
        print_json(_tasks_json(view, chosen))
    elif view is None:
        print_text(no_run_text())
    else:
        click.echo(format_tasks(view, chosen, layout_for(sys.stdout)))


def _tasks_json(view: RunView | None, chosen: tuple[Goal, ...]) -> Json:
    if view is None:
        return {"run": None, "actions": [], "facts": []}
    actions = [action_json(view, action) for goal in chosen for action in view.actions_of(goal)]
    facts = [{"goal_id": goal.id, **fact_json(fact)} for goal in chosen for fact in view.facts[goal.id]]
    return {"run": view.run.id, "actions": actions, "facts": facts}


def _read_view(run_name: str | None, goal_name: str | None) -> tuple[RunView | None, tuple[Goal, ...]]:
    """Return the run and its selected goals; None if there is no run yet."""
    with store_reader_if_any(Path.cwd(), os.environ) as reader:
        run = find_run_if_any(reader, run_name)
        if reader is None or run is None:
            if goal_name:
                raise no_run_error()
            return None, ()
        view = read_run_view(reader, run)
        if goal_name is None:
            return view, view.goals
        wanted = find_goal(reader, run, goal_name)
        return view, tuple(goal for goal in view.goals if goal.id == wanted.id)
