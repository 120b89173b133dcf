"""`baseline`: the gate results before a run's work; show or reset them."""

import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import click

from scaffold.cli.commands.options import json_option, pageable, run_option
from scaffold.cli.render.status_text import no_run_text
from scaffold.cli.render.terminal.style import heading, output_lines, print_json, print_note, status_mark
from scaffold.cli.render.terminal.text_layout import Layout, layout_for, print_text
from scaffold.cli.wiring import context_with_run
from scaffold.core.model import Run
from scaffold.core.printable_text import count_of
from scaffold.core.proof.gates import Baseline, GateKind, GateRun
from scaffold.core.states import Cancelled, Completed, Failed, status_of
from scaffold.host.process.async_runner import run_async
from scaffold.orchestrator.owner.run_baseline import reset_baseline
from scaffold.verify.regression.baseline_capture import ADVISORY, gate_summary, uninformative_reason
from scaffold.views.store_reader import find_run_if_any, store_reader_if_any
from scaffold.views.text_format import fill, pad

MOST_SHOWN = 10  # names of tests that did not pass; `--json` has them all


@click.command()
@click.argument("operation", metavar="[show|reset]", type=click.Choice(["show", "reset"]), default="show")
@run_option
@json_option
@pageable
def baseline(operation: str, run_name: str | None, *, as_json: bool) -> None:
    """Show the results of tests, build, lint and type check before a run's work, or `reset` them to capture them again.

    Work is compared with them: what failed before does not count, and new failures do not land.
    """
    if operation == "reset":
        run_async(_reset_baseline(run_name, as_json=as_json))
        return
    with store_reader_if_any(Path.cwd(), os.environ, show=print_note) as reader:
        run = find_run_if_any(reader, run_name)
        found = reader.store.baselines.for_run(run.id) if reader and run else None
        # Attempts start only once there is a baseline.
        was_reset = bool(reader and run and not found and reader.store.attempts.for_run(run.id))
    if as_json:
        shape = {
            "run": run.id if run else None,
            "base": run.base_sha if run else None,
            "captured": found is not None,
            "environment": found.environment.fingerprint if found else None,
            "gates": [gate_summary(gate) for gate in found.runs] if found else [],
        }
        print_json(shape)
    elif run is None:
        print_text(no_run_text())
    else:
        click.echo("\n".join(_baseline_lines(run, found, was_reset, layout_for(sys.stdout))))


def _baseline_lines(run: Run, found: Baseline | None, was_reset: bool, layout: Layout) -> Iterator[str]:
    if found is None:
        if not run.settings.gates.enabled:
            why = "its gates are off."
        elif was_reset:
            why = "it was reset."
        elif isinstance(run.state, Failed):
            why = run.state.reason
        elif isinstance(run.state, Completed | Cancelled):
            why = f"the run is {status_of(run.state)}, and none was captured before that."
        else:
            why = "it is captured when the run starts or continues."
        yield from layout.prose("", f"Run {run.id} has no baseline: {why}", hang=2)
        return
    yield heading(f"Baseline of run {run.id} at {run.base_sha[:8]}")
    for shown in found.runs:
        yield from _gate_lines(shown, layout)
    kinds = {shown.gate.kind for shown in found.runs}
    yield from (
        f"  {status_mark('skipped')} {pad(kind, 10)} not applicable" for kind in get_args(GateKind) if kind not in kinds
    )


def _gate_lines(shown: GateRun, layout: Layout) -> Iterator[str]:
    broken = sorted(name for name, outcome in shown.outcomes.items() if outcome in {"failed", "error", "flaky"})
    sign = status_mark("error" if shown.problem else "warn" if broken else "pass")
    yield from layout.prose(f"  {sign} {fill(shown.gate.name, 10)} ", _gate_summary(shown))
    yield from layout.wrap("      $ ", shown.gate.command)
    if shown.gate.advisory:
        yield from layout.prose("      ", f"only warns: {ADVISORY}")
    if shown.problem:
        yield from output_lines(shown.detail.partition("\n")[2], shown.log, layout)
    if why := uninformative_reason(shown):
        yield from layout.prose("      ", why)
        return
    for name in broken[:MOST_SHOWN]:
        yield from layout.wrap(f"      {pad(shown.outcomes[name], 7)} ", name)
        if reason := shown.refused.get(name):
            yield from layout.prose(" " * 14, f"not checkable here: {reason}")
    if len(broken) > MOST_SHOWN:
        yield f"      and {len(broken) - MOST_SHOWN} more; `--json` lists them all"


def _gate_summary(shown: GateRun) -> str:
    if shown.problem:
        return f"not checked: {shown.detail.partition(chr(10))[0]}"
    counts = Counter(shown.outcomes.values())
    if shown.gate.runner == "findings":
        return f"{count_of(counts['failed'], 'finding')}"
    return ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items(), key=lambda each: -each[1]))


async def _reset_baseline(run_name: str | None, *, as_json: bool) -> None:
    async with context_with_run(run_name) as (context, run):
        was_reset = reset_baseline(context, run)
    if as_json:
        print_json({"run": run.id, "reset": was_reset})
    elif not was_reset:
        print_text(f"run {run.id} has no baseline; nothing was changed")
    else:
        print_text(
            f"the baseline of run {run.id} is reset\n  it is captured again when a run starts there or continues"
        )
