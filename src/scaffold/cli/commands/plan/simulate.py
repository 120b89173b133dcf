"""`plan simulate`: a simulated execution of a plan, drawn as bars over time."""

import sys
from collections.abc import Iterator

import click
from rich.cells import cell_len

from scaffold.cli.commands.options import json_option
from scaffold.cli.commands.plan.source import check_plan_file, print_invalid
from scaffold.cli.render.terminal.style import print_json
from scaffold.cli.render.terminal.text_layout import Layout, layout_for, print_text
from scaffold.core.printable_text import count_of, printable
from scaffold.plan.analysis.agent_count import SEEDS, advise_agent_count
from scaffold.plan.simulation.simulator import SimulatedAction, Simulation
from scaffold.plan.simulation.simulator import simulate as simulated
from scaffold.views.text_format import fill, format_seconds

ROWS = 40  # actions drawn; JSON has all

TIMES = 24
MIN_BARS = 4
MAX_BARS = 100
WORK, FAILED, WAIT = "█", "x", "·"


def _check_probability(context: click.Context, parameter: click.Parameter, value: float) -> float:
    if not 0 <= value <= 1:
        raise click.BadParameter(f"{value:g} is not in the range from 0 to 1.", context, parameter)
    return value


@click.command()
@click.argument("file")
@click.option(
    "--agents",
    type=click.IntRange(1, 1000),
    help="How many agents work in parallel; default: as many as `explain` advises.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="The random seed for durations and failures.")
@click.option(
    "--failure-rate",
    type=float,
    callback=_check_probability,
    default=0.0,
    show_default=True,
    help="The probability that an attempt fails, from 0 to 1.",
)
@json_option
def simulate(file: str, *, agents: int | None, seed: int, failure_rate: float, as_json: bool) -> int:
    """Simulate the plan in FILE (`-`: standard input) on a virtual clock; nothing runs, and it costs nothing.

    The same file and flags give the same result everywhere. The exit code is 0 for every result, 4 for an invalid plan.
    """
    examined = check_plan_file(file)
    if examined.sound is None:
        return print_invalid(examined, as_json=as_json)
    advice = advise_agent_count(examined.sound)
    agents = agents or advice.agents
    simulation = simulated(examined.sound, agents=agents, seed=seed, failure_rate=failure_rate)
    if as_json:
        print_json(simulation)
    else:
        layout = layout_for(sys.stdout)
        click.echo("\n".join((*_chart_lines(simulation, layout), *_summary_lines(simulation, layout))))
        mean_s = next((each.makespan_s for each in advice.predictions if each.agents == agents), None)
        if mean_s is not None and not failure_rate:
            seeds = f"the mean of seeds {SEEDS[0]} to {SEEDS[-1]}, as `explain` shows"
            print_text(f"{format_seconds(mean_s)} is {seeds}")
    return 0


def _chart_lines(simulation: Simulation, layout: Layout) -> Iterator[str]:
    begun = sorted((action for action in simulation.actions if action.attempts), key=_start_s)
    columns = layout.drawing_columns
    label = min(columns // 4, max((cell_len(printable(action.key)) for action in begun[:ROWS]), default=0))
    bars = max(MIN_BARS, min(MAX_BARS, columns - label - TIMES - 2))
    for action in begun[:ROWS]:
        end_s = action.attempts[-1].end_s if action.landed_s is None else action.landed_s
        times = f"{format_seconds(_start_s(action))} - {format_seconds(end_s)}"
        key = printable(action.key)
        if layout.is_limited and cell_len(key) > label:
            yield from layout.wrap("", key)
            key = ""
        makespan_s = max(1, simulation.makespan_s)  # a plan without work takes 0 s
        cells = [" "] * bars
        # The wait first: attempts are drawn over it where both fall into one column.
        if action.landed_s is not None:
            _fill_cells(cells, action.attempts[-1].end_s, action.landed_s, makespan_s, WAIT)
        for attempt in action.attempts:
            _fill_cells(cells, attempt.start_s, attempt.end_s, makespan_s, WORK if attempt.succeeded else FAILED)
        yield f"{fill(key, label)} {''.join(cells)} {times}"
    if len(begun) > ROWS:
        yield f"... and {len(begun) - ROWS} more"
    yield from layout.wrap("", f"{WORK} works  {FAILED} fails  {WAIT} waits to land")
    yield ""


def _start_s(action: SimulatedAction) -> int:
    return action.attempts[0].start_s


def _fill_cells(cells: list[str], start_s: int, end_s: int, makespan_s: int, sign: str) -> None:
    bars = len(cells)
    first = min(start_s * bars // makespan_s, bars - 1)
    last = max(first + 1, -(-end_s * bars // makespan_s))
    cells[first:last] = sign * (last - first)


def _summary_lines(simulation: Simulation, layout: Layout) -> Iterator[str]:
    rate = f"failure rate {simulation.failure_rate:g}"
    yield from layout.wrap("", f"{count_of(simulation.agents, 'agent')}, seed {simulation.seed}, {rate}", hang=2)
    attempts = sum(len(action.attempts) for action in simulation.actions)
    yield from layout.prose(
        "",
        f"{format_seconds(simulation.makespan_s)} in total, at best {format_seconds(simulation.bound_s)}; agents busy"
        f" {simulation.utilization:.0%}; {count_of(attempts, 'attempt')},"
        f" {count_of(len(simulation.landings), 'landing')}",
        hang=2,
    )
    for goal in simulation.goals:
        yield from layout.wrap("", f"goal {goal.name}: {goal.status} after {format_seconds(goal.ended_s)}", hang=2)
        yield from layout.prose("  ", goal.reason) if goal.reason else ()
