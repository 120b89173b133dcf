"""`cost`: what a run cost, by goal, action, role and model, and what proof and landing cost beside the work."""

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from rich.cells import cell_len

from scaffold.cli.commands.options import json_option, pageable
from scaffold.cli.render.status_text import budget_lines, no_run_text
from scaffold.cli.render.terminal.style import heading, print_json, print_note
from scaffold.cli.render.terminal.text_layout import layout_for, print_text
from scaffold.core.model import Usage
from scaffold.core.printable_text import format_usd, printable
from scaffold.core.spending import SUBSCRIPTION, Amount
from scaffold.plan.budget import format_tokens
from scaffold.views.run_history import CostLine, RunCosts, read_history, run_costs
from scaffold.views.run_json import Json, budget_json
from scaffold.views.run_view import RunView, read_run_view
from scaffold.views.store_reader import find_run_if_any, store_reader_if_any
from scaffold.views.text_format import fill, format_cost, format_seconds, format_usage

MAX_NAME_CELLS = 40
"""The widest column of names; a longer name is shown whole, above its amounts if there is no room beside it."""
MIN_NAME_CELLS = 16  # narrower, most names would stand above their amounts


@click.command()
@click.argument("run_name", metavar="[RUN]", required=False)
@json_option
@pageable
def cost(run_name: str | None, *, as_json: bool) -> None:
    """Show what RUN (default: the latest) cost so far: by purpose, goal, action, role and model, the dearest first."""
    with store_reader_if_any(Path.cwd(), os.environ, show=print_note) as reader:
        run = find_run_if_any(reader, run_name, "paid")
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
        click.echo("\n".join(_cost_lines(view, costs)))


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


def _cost_lines(view: RunView, costs: RunCosts) -> Iterator[str]:
    yield heading(f"run {view.run.id}: {format_usage(view.summary.spent)}")
    use = view.summary.budget
    for line in budget_lines(use):
        yield f"  {line}"
    if use.share is not None and use.reserved != Amount():
        yield f"  reserved for requests: {format_usd(use.reserved.usd)}, {format_tokens(use.reserved.tokens)}"
    yield from _cost_table("By purpose", costs.by_purpose)
    yield from _cost_table("By goal", costs.by_goal)
    yield from _cost_table("By action", costs.by_action)
    yield from _cost_table("By role", costs.by_role)
    yield from _cost_table("By model", costs.by_model)
    if any(line.name.endswith(SUBSCRIPTION) for line in costs.by_model):
        yield "  what a subscription pays is counted as it would cost by a key"


def _cost_table(title: str, lines: Sequence[CostLine]) -> Iterator[str]:
    if not lines:
        return
    yield ""
    yield heading(title)
    layout = layout_for(sys.stdout)
    amounts = list[str]()
    for usage, seconds in ((line.usage, line.seconds) for line in lines):
        cached = f"{usage.cached_input_tokens / usage.input_tokens:.0%} cached" if usage.input_tokens else ""
        tokens = f"{usage.input_tokens:>11,} in  {usage.output_tokens:>9,} out"
        text = f"{format_cost(usage.cost_usd):>12}  {tokens}  {cached}".rstrip()
        amounts.append(text if seconds is None else f"{text}  {format_seconds(seconds)}")
    longest = max(cell_len(printable(line.name)) for line in lines)
    wide = min(MAX_NAME_CELLS, longest, max(MIN_NAME_CELLS, layout.columns - 2 - max(map(len, amounts))))
    for line, text in zip(lines, amounts, strict=True):
        # Names are never cut where there is a limit: they are copied into other commands.
        if layout.is_limited and cell_len(printable(line.name)) > wide:
            yield from layout.wrap("  ", line.name)
            yield f"  {' ' * wide}{text}"
        else:
            yield f"  {fill(line.name, wide)}{text}"
