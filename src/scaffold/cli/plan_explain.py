"""`plan explain`: what runs when, who provides what for whom, how many agents it deserves, and where it is weak."""

from collections.abc import Iterator, Sequence
from datetime import timedelta

import click
from msgspec import Struct

from scaffold.cli.plan_source import Examined, examine, refuse
from scaffold.cli.screen import WIDTH, heading, json_option, print_json, span, wrapped
from scaffold.core.ids import Key
from scaffold.core.legible import few
from scaffold.core.plan import Finding
from scaffold.plan.advice import Advice
from scaffold.plan.explain import GoalExplained, Supply
from scaffold.plan.explain import explain as explained

SHOWN = 30
"""How many levels, assertions and weaknesses people are shown; JSON has all."""


class Explained(Struct, frozen=True, kw_only=True):
    """`plan explain --json`; an invalid plan gets what `plan check --json` says."""

    valid: bool
    actions: int
    width: int
    critical_path: tuple[Key, ...]
    goals: tuple[GoalExplained, ...]
    weaknesses: tuple[Finding, ...]
    advice: Advice


@click.command()
@click.argument("file")
@json_option
def explain(file: str, *, as_json: bool) -> int:
    """Say what the plan in FILE (`-` for standard input) means: levels, providers, the longest chain, weak spots.

    Exit code 0; 4 for an invalid plan, which is told like `plan check` does.
    """
    examined = examine(file)
    if examined.sound is None:
        return refuse(examined, as_json=as_json)
    explanation = explained(examined.sound)
    whole = Explained(
        valid=True,
        actions=examined.report.actions,
        width=examined.report.width,
        critical_path=examined.report.critical_path,
        goals=explanation.goals,
        weaknesses=(*_of_reading(examined), *explanation.weaknesses),
        advice=explanation.advice,
    )
    if as_json:
        print_json(whole)
    else:
        click.echo("\n".join(_told(whole, examined.name)))
    return 0


def _of_reading(examined: Examined) -> Iterator[Finding]:
    """Yield the warnings about the text, which lint does not know."""
    yield from (finding for finding in examined.report.findings if finding.code == "unknown-key")


def _told(whole: Explained, name: str) -> Iterator[str]:
    yield from wrapped(f"{name}: {whole.actions} actions, at most {whole.width} side by side", WIDTH)
    for goal in whole.goals:
        yield ""
        yield from _goal(goal)
    yield ""
    yield heading("Agents")
    yield from _indented(_advised(whole.advice))
    if whole.weaknesses:
        yield ""
        yield heading("Weak spots")
        for weakness in whole.weaknesses[:SHOWN]:
            yield from _indented(f"{weakness.code}: {weakness.message}")
            yield from _indented(weakness.fix, 4)
        yield from _rest(whole.weaknesses)


def _goal(goal: GoalExplained) -> Iterator[str]:
    yield from (heading(line) for line in wrapped(f"Goal {goal.name}", WIDTH))
    for number, level in enumerate(goal.levels[:SHOWN], 1):
        yield from _indented(f"{number}. {_names(level)}")
    yield from _rest(goal.levels)
    chain = " -> ".join(goal.critical_path)
    yield from _indented(f"longest chain: {chain} (no faster than {_long(goal.bound_s)})")
    for supply in goal.supplies[:SHOWN]:
        yield from _indented(_supply(supply))
    yield from _rest(goal.supplies)


def _supply(supply: Supply) -> str:
    whom = [*supply.needed_by[:SHOWN], *(["the goal"] if supply.wanted else [])] or ["nobody"]
    return f"{supply.assertion}: from {_names(supply.providers)} for {', '.join(whom)}"


def _advised(advice: Advice) -> str:
    times = ", ".join(f"{each.agents}: {_long(each.makespan_s)}" for each in advice.predictions)
    plural = "s" * (advice.agents != 1)
    return f"{advice.agents} agent{plural}, because {advice.why}. Predicted times by number of agents: {times}."


def _names(keys: Sequence[Key]) -> str:
    return few(keys, SHOWN)


def _long(seconds: float) -> str:
    return span(timedelta(seconds=seconds))


def _rest(things: Sequence[object]) -> Iterator[str]:
    if len(things) > SHOWN:
        yield f"  ... and {len(things) - SHOWN} more"


def _indented(text: str, columns: int = 2) -> Iterator[str]:
    """Yield `text` as lines below each other; those after the first stand a little further in."""
    for number, line in enumerate(wrapped(text, WIDTH - columns - 2)):
        yield " " * (columns + 2 * (number > 0)) + line
