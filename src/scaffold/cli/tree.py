"""`goals` and `tasks`: what is wanted and what leads there, each with the evidence that there is."""

import os
from pathlib import Path

import click

from scaffold.cli.lookup import find_goal, run_option
from scaffold.cli.overview import nothing_yet
from scaffold.cli.picture import Picture, take
from scaffold.cli.reader import find_run, no_run_yet, reader_if_any
from scaffold.cli.screen import json_option, print_json
from scaffold.cli.snapshot import Json, action_shape, fact_shape, goal_shape
from scaffold.cli.views import goals_of, tasks_of
from scaffold.core.model import Goal


@click.command()
@run_option
@json_option
def goals(run_name: str | None, *, as_json: bool) -> None:
    """List the goals of a run with what holds, what shows it, and what is missing."""
    picture, _ = _picture(run_name, None)
    if as_json:
        shapes = [goal_shape(picture, goal) for goal in picture.goals] if picture else []
        print_json({"run": picture.run.id if picture else None, "goals": shapes})
    elif picture is None:
        click.echo(nothing_yet())
    else:
        click.echo(goals_of(picture))


@click.command()
@click.argument("goal_name", metavar="[GOAL]", required=False)
@run_option
@json_option
def tasks(goal_name: str | None, run_name: str | None, *, as_json: bool) -> None:
    """Show the actions of a run, or of one GOAL, as a tree: status, effects, what shows them, results."""
    picture, chosen = _picture(run_name, goal_name)
    if as_json:
        print_json(_tasks_shape(picture, chosen))
    elif picture is None:
        click.echo(nothing_yet())
    else:
        click.echo(tasks_of(picture, chosen))


def _tasks_shape(picture: Picture | None, chosen: tuple[Goal, ...]) -> Json:
    if picture is None:
        return {"run": None, "actions": [], "facts": []}
    actions = [action_shape(picture, action) for goal in chosen for action in picture.actions_of(goal)]
    facts = [{"goal_id": goal.id, **fact_shape(fact)} for goal in chosen for fact in picture.facts[goal.id]]
    return {"run": picture.run.id, "actions": actions, "facts": facts}


def _picture(run_name: str | None, goal_name: str | None) -> tuple[Picture | None, tuple[Goal, ...]]:
    """Return a picture of the run and the goals of it that are asked for; None where nothing was ever run."""
    with reader_if_any(Path.cwd(), os.environ) as reader:
        if reader is None or (run_name is None and reader.store.runs.latest() is None):
            if run_name or goal_name:
                raise no_run_yet()
            return None, ()
        run = find_run(reader, run_name)
        picture = take(reader, run)
        if goal_name is None:
            return picture, picture.goals
        wanted = find_goal(reader, run, goal_name)
        return picture, tuple(goal for goal in picture.goals if goal.id == wanted.id)
