"""`goals`, `tasks`, `agents`, `audit`, `runs` and `queue`: lists of what a run or a repository has."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from scaffold.cli.commands.options import json_option, pageable, run_option
from scaffold.cli.render.audit_text import audit_text
from scaffold.cli.render.goals_tasks_agents import format_agents, format_goals, format_tasks, held_back_lines
from scaffold.cli.render.run_list_text import queue_text, runs_text
from scaffold.cli.render.status_text import no_run_text
from scaffold.cli.render.terminal.style import print_json, print_note
from scaffold.cli.render.terminal.text_layout import layout_for, print_text
from scaffold.core.model import Goal, Run
from scaffold.core.states import INTERRUPTED, RUN_TRANSITIONS
from scaffold.host.startup import importing
from scaffold.run.resources.attempt_resources import resources_in_use
from scaffold.views.agent_list import read_held_back
from scaffold.views.compliance import compliance_json, read_compliance
from scaffold.views.name_lookup import find_goal
from scaffold.views.run_json import action_json, agent_json, fact_json, goal_json, held_back_json, queue_json
from scaffold.views.run_list import ListedRun, read_runs
from scaffold.views.run_view import RunView, read_processes, read_run_view
from scaffold.views.store_reader import find_run_if_any, no_run_error, store_reader_if_any

STATUSES = (*RUN_TRANSITIONS, INTERRUPTED)


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
        click.echo(format_goals(view, view.goals, layout_for(sys.stdout)))


@click.command()
@click.argument("goal_name", metavar="[GOAL]", required=False)
@run_option
@json_option
@pageable
def tasks(goal_name: str | None, run_name: str | None, *, as_json: bool) -> None:
    """Show the actions of a run, or of one GOAL, as a tree: status, effects with their evidence, results."""
    view, chosen = _read_view(run_name, goal_name)
    if as_json:
        goals = chosen if view else ()
        actions = [action_json(view, action) for goal in goals for action in view.actions_of(goal)] if view else []
        facts = (
            [{"goal_id": goal.id, **fact_json(fact)} for goal in goals for fact in view.facts[goal.id]] if view else []
        )
        print_json({"run": view.run.id if view else None, "actions": actions, "facts": facts})
    elif view is None:
        print_text(no_run_text())
    else:
        click.echo(format_tasks(view, chosen, layout_for(sys.stdout)))


def _read_view(run_name: str | None, goal_name: str | None) -> tuple[RunView | None, tuple[Goal, ...]]:
    with store_reader_if_any(Path.cwd(), os.environ, show=print_note) as reader:
        run = find_run_if_any(reader, run_name)
        if reader is None or run is None:
            if goal_name:
                raise no_run_error()  # without a name, "no run yet" is an answer
            return None, ()
        view = read_run_view(reader, run)
        if goal_name is None:
            return view, view.goals
        wanted = find_goal(reader, run, goal_name)
        return view, tuple(goal for goal in view.goals if goal.id == wanted.id)


@click.command()
@run_option
@json_option
@pageable
def agents(run_name: str | None, *, as_json: bool) -> None:
    """Show every process of a run - owner, supervisors, workers - with its work and its cost."""
    with store_reader_if_any(Path.cwd(), os.environ, show=print_note) as reader:
        run = find_run_if_any(reader, run_name)
        if reader is None or run is None:
            if as_json:
                print_json({"run": None, "agents": [], "held_back": []})
            else:
                print_text(no_run_text())
            return
        rows, held_back = read_processes(reader, run), read_held_back(reader, run)
        if as_json:
            waiting = [{"action": each.key, **(held_back_json(each.why) or {})} for each in held_back]
            rows_json = [{**agent_json(row), **resources_in_use(row.worktree).fields} for row in rows]
            print_json({"run": run.id, "agents": rows_json, "held_back": waiting})
        else:
            layout = layout_for(sys.stdout)
            lines = (format_agents(rows, reader.clock.now(), layout), *held_back_lines(held_back, layout))
            click.echo("\n".join(lines))


@click.command()
@click.argument("run_name", metavar="[RUN]", required=False)
@json_option
@pageable
def audit(run_name: str | None, *, as_json: bool) -> None:
    """Show each requirement of RUN's specification (default: the latest run): verdict, cited lines, what is missing.

    A verdict is what an agent says. It counts as met only with lines that exist, and it makes no fact.
    """
    with store_reader_if_any(Path.cwd(), os.environ, show=print_note) as reader:
        run: Run | None = find_run_if_any(reader, run_name, "audited")
        with_audits = read_compliance(reader.store, run) if reader and run else None
    if as_json:
        print_json({"run": run.id if run else None, "audit": compliance_json(with_audits) if with_audits else None})
    elif run is None:
        print_text(no_run_text())
    elif with_audits is None:
        print_text(f"run {run.id} is not audited: start one with `scaffold run --spec FILE --until-complied`")
    else:
        click.echo(audit_text(with_audits, layout_for(sys.stdout)))


@click.command()
@click.option("--status", "statuses", type=click.Choice(STATUSES), multiple=True, help="Only runs with this status.")
@click.option("-n", "--last", type=click.IntRange(min=1), metavar="N", help="Only the N that were touched last.")
@json_option
@pageable
def runs(statuses: Sequence[str], last: int | None, *, as_json: bool) -> None:
    """List the runs of this repository, the one in which something happened last first."""
    with store_reader_if_any(Path.cwd(), os.environ, show=print_note) as reader:
        found: Sequence[ListedRun] = () if reader is None else read_runs(reader, statuses)[:last]
        if as_json:
            # Git is asked only if work may have been taken: it takes longer than all the rest.
            if reader is not None and any(reader.store.branch_moves.done_of_run(each.id) for each in found):
                with importing():
                    from scaffold.views.changes.taken_work import runs_with_taken_in
                found = runs_with_taken_in(Path.cwd(), reader.store, found)
            print_json({"runs": found})
        elif reader is None or not found:
            print_text("No run has this status." if statuses else no_run_text())
        else:
            click.echo(runs_text(found, reader.clock.now(), layout_for(sys.stdout)))


@click.command()
@click.argument("run_name", metavar="[RUN]", required=False)
@json_option
@pageable
def queue(run_name: str | None, *, as_json: bool) -> None:
    """Show the candidates of RUN (default: the latest) that wait to land, in order."""
    with store_reader_if_any(Path.cwd(), os.environ, show=print_note) as reader:
        run = find_run_if_any(reader, run_name)
        view = None if reader is None or run is None else read_run_view(reader, run)
        if as_json:
            print_json({"run": view.run.id if view else None, "queue": queue_json(view) if view else []})
        elif view is None:
            print_text(no_run_text())
        elif not view.queue:
            print_text("Nothing waits to land.")
        else:
            click.echo(queue_text(view, layout_for(sys.stdout)))
