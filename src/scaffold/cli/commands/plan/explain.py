"""`plan explain`: the order of actions, providers, a number of agents, and weak spots."""

import sys
from collections.abc import Iterator, Sequence

import click
from msgspec import Struct

from scaffold.cli.commands.options import json_option
from scaffold.cli.commands.plan.source import CheckedPlan, check_plan_file, print_invalid
from scaffold.cli.render.terminal.style import example_lines, heading, print_json
from scaffold.cli.render.terminal.text_layout import Layout, layout_for
from scaffold.core.ids import ActionKey
from scaffold.core.plan import Finding
from scaffold.core.printable_text import count_of, join_limited
from scaffold.plan.analysis.agent_count import TIMING, AgentCountAdvice
from scaffold.plan.analysis.explanation import GoalExplanation
from scaffold.plan.analysis.explanation import explain as explained
from scaffold.views.text_format import format_seconds

MAX_SHOWN = 30  # levels, assertions and weaknesses in the text; JSON has all


class PlanExplanation(Struct, frozen=True, kw_only=True):
    """The output of `plan explain --json` for a valid plan; for an invalid one it is that of `plan check --json`."""

    valid: bool
    actions: int
    width: int
    critical_path: tuple[ActionKey, ...]
    goals: tuple[GoalExplanation, ...]
    weaknesses: tuple[Finding, ...]
    advice: AgentCountAdvice


@click.command()
@click.argument("file")
@json_option
def explain(file: str, *, as_json: bool) -> int:
    """Explain the plan in FILE (`-`: standard input): levels, providers, the longest chain, weak spots.

    The exit code is 0, or 4 for an invalid plan, whose findings are shown as in `plan check`.
    """
    examined = check_plan_file(file)
    if examined.sound is None:
        return print_invalid(examined, as_json=as_json)
    explanation = explained(examined.sound)
    whole = PlanExplanation(
        valid=True,
        actions=examined.report.actions,
        width=examined.report.width,
        critical_path=examined.report.critical_path,
        goals=explanation.goals,
        # Lint does not report unknown keys: they are warnings about the text of the file.
        weaknesses=(
            *(finding for finding in examined.report.findings if finding.code in {"unknown-key", "cut-text"}),
            *explanation.weaknesses,
        ),
        advice=explanation.advice,
    )
    if as_json:
        print_json(whole)
    else:
        click.echo("\n".join(_explanation_lines(whole, examined, layout_for(sys.stdout))))
    return 0


def _explanation_lines(whole: PlanExplanation, examined: CheckedPlan, layout: Layout) -> Iterator[str]:
    yield from layout.wrap(
        "", f"{examined.name}: {count_of(whole.actions, 'action')}, at most {whole.width} in parallel"
    )
    for note in examined.notes:
        yield from layout.prose("", note, hang=2)
    for goal in whole.goals:
        yield ""
        yield from _goal_lines(goal, layout)
    yield ""
    yield heading("Agents")
    advice = whole.advice
    times = ", ".join(f"{each.agents}: {format_seconds(each.makespan_s)}" for each in advice.predictions)
    recommended = f"{count_of(advice.agents, 'agent')}, because {advice.why}."
    yield from layout.prose("  ", f"{recommended} Times by number of agents, means of simulations: {times}.", hang=4)
    if whole.weaknesses:
        yield ""
        yield heading("Weak spots")
        shown = set[str]()
        for weakness in whole.weaknesses[:MAX_SHOWN]:
            yield from layout.prose("  ", f"{weakness.code}: {weakness.message}", hang=4)
            yield from layout.prose("    ", weakness.fix, hang=6)
            yield from (f"  {line}" for line in example_lines(weakness, shown))
        yield from _more_lines(whole.weaknesses)


def _goal_lines(goal: GoalExplanation, layout: Layout) -> Iterator[str]:
    yield from map(heading, layout.wrap("", f"Goal {goal.name}"))
    for number, level in enumerate(goal.levels[:MAX_SHOWN], 1):
        yield from layout.wrap("  ", f"{number}. {_join_names(level)}", hang=4)
    yield from _more_lines(goal.levels)
    chain = " -> ".join(goal.critical_path)
    yield from layout.wrap(
        "  ",
        f"longest chain: {chain} ({format_seconds(goal.bound_s)}, at {format_seconds(TIMING.mean_s)} an action)",
        hang=4,
    )
    for supply in goal.supplies[:MAX_SHOWN]:
        users = [*supply.needed_by[:MAX_SHOWN], *(["the goal"] if supply.wanted else [])] or ["no action"]
        line = f"{supply.assertion}: from {_join_names(supply.providers)} for {', '.join(users)}"
        yield from layout.wrap("  ", line, hang=4)
    yield from _more_lines(goal.supplies)


def _join_names(keys: Sequence[ActionKey]) -> str:
    return join_limited(keys, MAX_SHOWN)


def _more_lines(things: Sequence[object]) -> Iterator[str]:
    if len(things) > MAX_SHOWN:
        yield f"  ... and {len(things) - MAX_SHOWN} more"
