"""`cost`: what a run cost, by goal, action, role and model, and what proof and landing cost beside the work."""

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from scaffold.cli.commands.options import json_option, pageable
from scaffold.cli.render.status_text import budget_lines, no_run_text
from scaffold.cli.render.terminal.style import heading, print_json, print_note
from scaffold.cli.render.terminal.text_layout import Layout, layout_for, print_text
from scaffold.cli.render.terminal.text_table import table_lines
from scaffold.core.model import Usage
from scaffold.core.printable_text import format_usd
from scaffold.core.spending import SUBSCRIPTION, Amount
from scaffold.plan.budget import format_tokens
from scaffold.views.run_history import CostLine, RunCosts, read_history, run_costs
from scaffold.views.run_json import Json, budget_json
from scaffold.views.run_view import RunView, read_run_view
from scaffold.views.store_reader import find_run_if_any, store_reader_if_any
from scaffold.views.text_format import format_cost, format_seconds, format_usage

AMOUNTS = (1, 2, 3, 4)  # the columns aligned at the right


@click.command()
@click.argument("run_name", metavar="[RUN]", required=False)
@json_option
@pageable
def cost(run_name: str | None, *, as_json: bool) -> None:
    """Show what RUN (default: the latest) cost so far: by purpose, goal, action, role and model, the dearest first."""
    with store_reader_if_any(Path.cwd(), os.environ, show=print_note) as reader:
        run = find_run_if_any(reader, run_name, "worked")
        if reader is None or run is None:
            if as_json:
                splits: Json = {name: [] for name in ("purposes", "goals", "actions", "roles", "models")}
                print_json({"run": None, "total": None, "budget": None, **splits})
            else:
                print_text(no_run_text())
            return
        view = read_run_view(reader, run)
        history = read_history(reader, view)
        costs = run_costs(view, history.turns, reader.store.bookings.for_run(run.id), history)
    if as_json:
        print_json(
            {
                "run": run.id,
                "total": _usage_json(view.summary.spent),
                "budget": budget_json(view.summary),
                "purposes": [{**_line_json(line), "seconds": line.seconds} for line in costs.by_purpose],
                "goals": [_line_json(line) for line in costs.by_goal],
                "actions": [_line_json(line) for line in costs.by_action],
                "roles": [_line_json(line) for line in costs.by_role],
                "models": [_line_json(line) for line in costs.by_model],
            }
        )
    else:
        click.echo("\n".join(_cost_lines(view, costs, layout_for(sys.stdout))))


def _line_json(line: CostLine) -> Json:
    return {"name": line.name, "agents": line.agents, **_usage_json(line.usage)}


def _usage_json(usage: Usage) -> Json:
    share = usage.cached_input_tokens / usage.input_tokens if usage.input_tokens else None
    return {
        "cost_usd": usage.cost_usd,
        "requests": usage.requests,
        "input_tokens": usage.input_tokens,
        "cached_input_tokens": usage.cached_input_tokens,
        "cached_share": share,
        "output_tokens": usage.output_tokens,
        "counted_tokens": usage.counted_tokens,
    }


def _cost_lines(view: RunView, costs: RunCosts, layout: Layout) -> Iterator[str]:
    yield from map(heading, layout.wrap("", f"run {view.run.id}: {format_usage(view.summary.spent)}", hang=2))
    use = view.summary.budget
    notes = [*budget_lines(use)]
    if use.share is not None and use.reserved != Amount():
        notes.append(f"reserved for requests: {format_usd(use.reserved.usd)}, {format_tokens(use.reserved.tokens)}")
    for note in notes:
        yield from layout.prose("  ", note)
    yield from _cost_table("By purpose", costs.by_purpose, layout)
    yield from _cost_table("By goal", costs.by_goal, layout)
    yield from _cost_table("By action", costs.by_action, layout)
    yield from _cost_table("By role", costs.by_role, layout)
    yield from _cost_table("By model", costs.by_model, layout)
    if any(line.name.endswith(SUBSCRIPTION) for line in costs.by_model):
        yield from layout.prose("  ", "what a subscription pays is counted as it would cost by a key")


def _cost_table(title: str, lines: Sequence[CostLine], layout: Layout) -> Iterator[str]:
    if not lines:
        return
    yield ""
    yield heading(title)
    rows = []
    for line in lines:
        usage = line.usage
        tokens = (f"{usage.input_tokens:,} in", f"{usage.output_tokens:,} out")
        cached = f"{usage.cached_input_tokens / usage.input_tokens:.0%} cached" if usage.input_tokens else ""
        took = "" if line.seconds is None else format_seconds(line.seconds)
        rows.append(("  ", line.name, format_cost(usage.cost_usd), *tokens, cached, took))
    yield from table_lines(rows, layout, right=AMOUNTS)
