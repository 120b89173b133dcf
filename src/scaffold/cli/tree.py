"""`goals` and `tasks`: what is wanted and what leads there, each with the evidence that there is."""

import asyncio
from collections.abc import Iterator, Mapping

import click

from scaffold.cli.desk import find_run
from scaffold.cli.lookup import find_goal, run_option, site_if_any
from scaffold.cli.overview import action_note, nothing_yet
from scaffold.cli.picture import Picture, take
from scaffold.cli.screen import WIDTH, clip, heading, json_option, mark, print_json
from scaffold.cli.snapshot import action_shape, goal_shape
from scaffold.core.errors import UsageProblem
from scaffold.core.ids import ActionId, Assertion
from scaffold.core.model import Action, Evidence, Fact, Goal
from scaffold.core.states import reason_of, status_of

INDENT = "  "


@click.command()
@run_option
@json_option
def goals(run_name: str | None, *, as_json: bool) -> None:
    """List the goals of a run with what holds, what shows it, and what is missing."""
    picture, _ = asyncio.run(_picture(run_name, None))
    if as_json:
        shapes = [goal_shape(picture, goal) for goal in picture.goals] if picture else []
        print_json({"run": picture.run.id if picture else None, "goals": shapes})
    elif picture is None:
        click.echo(nothing_yet())
    else:
        click.echo("\n\n".join("\n".join(_goal(picture, goal)) for goal in picture.goals))


@click.command()
@click.argument("goal_name", metavar="[GOAL]", required=False)
@run_option
@json_option
def tasks(goal_name: str | None, run_name: str | None, *, as_json: bool) -> None:
    """Show the actions of a run, or of one GOAL, as a tree: status, effects, what shows them, results."""
    picture, chosen = asyncio.run(_picture(run_name, goal_name))
    if as_json:
        actions = [action for goal in chosen for action in picture.actions_of(goal)] if picture else []
        shapes = [action_shape(picture, action) for action in actions] if picture else []
        print_json({"run": picture.run.id if picture else None, "actions": shapes})
    elif picture is None:
        click.echo(nothing_yet())
    else:
        click.echo("\n\n".join("\n".join(_tree(picture, goal)) for goal in chosen))


async def _picture(run_name: str | None, goal_name: str | None) -> tuple[Picture | None, tuple[Goal, ...]]:
    """Return a picture of the run and the goals of it that are asked for; None where nothing was ever run."""
    async with site_if_any() as site:
        if site is None or (run_name is None and site.store.runs.latest() is None):
            if run_name or goal_name:
                raise UsageProblem(
                    "there is no run in this repository yet", "Start one with `scaffold run --plan FILE`."
                )
            return None, ()
        run = find_run(site, run_name)
        picture = take(site, run)
        if goal_name is None:
            return picture, picture.goals
        wanted = find_goal(site, run, goal_name)
        return picture, tuple(goal for goal in picture.goals if goal.id == wanted.id)


def _goal(picture: Picture, goal: Goal) -> Iterator[str]:
    yield _title(goal)
    if goal.description and goal.description != goal.name:
        yield f"  {clip(goal.description, WIDTH - 2)}"
    facts = {fact.assertion: fact for fact in picture.facts[goal.id]}
    for assertion in goal.desired:
        yield from _effect(assertion, facts, INDENT)
    others = sorted(name for name in picture.holding(goal) if name not in goal.desired)
    for assertion in others:
        yield from _effect(assertion, facts, INDENT)


def _title(goal: Goal) -> str:
    reason = reason_of(goal.state)
    state = status_of(goal.state) + (f": {reason}" if reason else "")
    return f"{heading(clip(goal.name, 40))}: {clip(state, WIDTH - 42)}"


def _tree(picture: Picture, goal: Goal) -> Iterator[str]:
    yield _title(goal)
    actions = picture.actions_of(goal)
    children: dict[ActionId | None, list[Action]] = {}
    for action in actions:
        children.setdefault(action.parent_id, []).append(action)
    facts = {fact.assertion: fact for fact in picture.facts[goal.id]}
    by_id = {action.id: action for action in actions}
    holding = picture.holding(goal)
    stack = [(action, 1) for action in reversed(children.get(None, []))]
    while stack:
        action, depth = stack.pop()
        note = action_note(picture, action, holding, by_id)
        yield from _action(action, facts, note, INDENT * depth)
        stack += [(child, depth + 1) for child in reversed(children.get(action.id, []))]


def _action(action: Action, facts: Mapping[Assertion, Fact], note: str, indent: str) -> Iterator[str]:
    status = status_of(action.state)
    kind = ", compound" if action.kind == "compound" else ""
    told = f"{status} {action.key} ({action.role}{kind}) {note}"
    yield f"{indent}{mark(status)} {clip(told, WIDTH - len(indent) - 2)}"
    for effect in action.effects:
        yield from _effect(effect, facts, indent + INDENT * 2)
    if action.result:
        yield f"{indent}{INDENT * 2}{clip(f'said: {action.result}', WIDTH - len(indent) - 4)}"


def _effect(assertion: Assertion, facts: Mapping[Assertion, Fact], indent: str) -> Iterator[str]:
    """Yield an assertion with its state, and below it a line for each piece of evidence."""
    fact = facts.get(assertion)
    state = "missing" if fact is None else fact.state
    weak = ", weak: nothing but a change speaks for it" if fact is not None and fact.weak else ""
    yield f"{indent}{mark(state)} {clip(f'{state} {assertion}{weak}', WIDTH - len(indent) - 2)}"
    for evidence in fact.evidence if fact is not None else ():
        yield f"{indent}{INDENT * 2}{evidence_line(evidence, WIDTH - len(indent) - 4)}"


def evidence_line(evidence: Evidence, width: int) -> str:
    """Return evidence on one line: the command or what else it is, how it ended, and the short commit."""
    ended = "" if evidence.exit_code is None else f", exit {evidence.exit_code}"
    end = f"{ended} at {evidence.commit[:8]}"
    return f"{clip(evidence.command or evidence.kind, width - len(end))}{end}"
