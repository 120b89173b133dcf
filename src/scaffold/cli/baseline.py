"""`baseline`: how the repository's own gates did before a run's work, and forgetting that."""

import os
import textwrap
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import get_args

import click

from scaffold.cli.lookup import run_option
from scaffold.cli.overview import nothing_yet
from scaffold.cli.reader import Reader, find_run, no_run_yet, reader_if_any, shown_status
from scaffold.cli.safe import printable
from scaffold.cli.screen import WIDTH, clip, clip_inside, heading, json_option, mark, pad, print_json
from scaffold.cli.wiring import open_site
from scaffold.core.errors import UsageProblem
from scaffold.core.gates import Baseline, GateKind, GateRun
from scaffold.core.model import Run
from scaffold.core.states import status_of
from scaffold.host.loop import run_async
from scaffold.verify.baseline import blind, gate_document
from scaffold.worker.site import Site

MOST_SHOWN = 10
"""So many tests that did not pass are named; `--json` has them all."""

AT_WORK = frozenset({"planning", "active"})


@click.command()
@click.argument("deed", metavar="[show|reset]", type=click.Choice(["show", "reset"]), default="show")
@run_option
@json_option
def baseline(deed: str, run_name: str | None, *, as_json: bool) -> None:
    """Show how the tests, build, lint and type check did before a run's work; or `reset` that, to have it made anew.

    Work is held against it: what failed before is nobody's fault, what fails anew is not landed.
    """
    if deed == "reset":
        run_async(_reset(run_name, as_json=as_json))
        return
    with reader_if_any(Path.cwd(), os.environ) as reader:
        run = _run(reader, run_name)
        found = reader.store.baselines.of_run(run.id) if reader and run else None
    if as_json:
        print_json(_shape(run, found))
    elif run is None:
        click.echo(nothing_yet())
    else:
        click.echo("\n".join(_lines(run, found)))


def _run(reader: Reader | None, name: str | None) -> Run | None:
    """Return the run that is asked about; None where none is named, and there is none yet."""
    if reader is not None and (name is not None or reader.store.runs.latest() is not None):
        return find_run(reader, name)
    if name is not None:
        raise no_run_yet()
    return None


def _shape(run: Run | None, found: Baseline | None) -> dict[str, object]:
    return {
        "run": run.id if run else None,
        "base": run.base_sha if run else None,
        "captured": found is not None,
        "environment": found.environment.fingerprint if found else None,
        "gates": [gate_document(gate) for gate in found.runs] if found else [],
    }


def _lines(run: Run, found: Baseline | None) -> Iterator[str]:
    if found is None:
        yield f"Run {run.id} has no baseline: {_why_none(run)}"
        return
    yield heading(f"Baseline of run {run.id} at {run.base_sha[:8]}")
    for shown in found.runs:
        yield from _gate_lines(shown)
    kinds = {shown.gate.kind for shown in found.runs}
    yield from (
        f"  {mark('skipped')} {pad(kind, 10)} not applicable" for kind in get_args(GateKind) if kind not in kinds
    )


def _why_none(run: Run) -> str:
    if not run.settings.gates:
        return "its gates are off."
    return "it is made when the run starts or goes on." if status_of(run.state) != "completed" else "it was reset."


def _gate_lines(shown: GateRun) -> Iterator[str]:
    broken = sorted(name for name, outcome in shown.outcomes.items() if outcome in {"failed", "error", "flaky"})
    sign = mark("error" if shown.trouble else "warn" if broken else "pass")
    head = f"{pad(shown.gate.name, 10)} {_told(shown)}"
    yield f"  {sign} {clip(head, WIDTH - 4)}"
    yield f"      $ {clip(shown.gate.command, WIDTH - 8)}"
    if why := blind(shown):
        yield from textwrap.wrap(printable(why), WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6)
        return
    for name in broken[:MOST_SHOWN]:
        yield f"      {pad(shown.outcomes[name], 7)} {clip_inside(name, WIDTH - 14)}"
    if len(broken) > MOST_SHOWN:
        yield f"      and {len(broken) - MOST_SHOWN} more; `--json` has them all"


def _told(shown: GateRun) -> str:
    if shown.trouble:
        return f"not checked: {shown.detail.partition(chr(10))[0]}"
    counts = Counter(shown.outcomes.values())
    if shown.gate.runner == "findings":
        return f"{counts['failed']} findings"
    return ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items(), key=lambda each: -each[1]))


async def _reset(run_name: str | None, *, as_json: bool) -> None:
    site = await open_site()
    try:
        run = find_run(site, run_name)
        found = site.store.baselines.of_run(run.id)
        if found is not None:
            _refuse_while_active(site)
            with site.store.transaction():
                site.store.baselines.drop(run.id, found.runs)
            with suppress(OSError):  # a mirror; the store has forgotten it
                (site.projections / "baselines" / f"{run.id}.json").unlink(missing_ok=True)
    finally:
        site.store.close()
    if as_json:
        print_json({"run": run.id, "reset": found is not None})
    elif found is None:
        click.echo(f"run {run.id} has no baseline; nothing was changed")
    else:
        click.echo(
            f"the baseline of run {run.id} is forgotten\n  it is made anew when a run starts from there or goes on"
        )


def _refuse_while_active(site: Site) -> None:
    """Raise UsageProblem while a run is at work: several may rest on what the gates showed at one commit."""
    for run in site.store.runs.all():
        if shown_status(run) in AT_WORK:
            raise UsageProblem(f"run {run.id} is at work", f"Stop it first: `scaffold stop {run.id}`.")
