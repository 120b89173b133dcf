"""`run`: a request, or a plan, carried out from the command line."""

import os
import sys
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec import Struct

from scaffold.cli.carry import go_on, planned, show_offer, tell_interrupted, tell_result
from scaffold.cli.exits import WAITS
from scaffold.cli.findings import tell_findings
from scaffold.cli.flags import Flags, flags_of, overrides, shared_options
from scaffold.cli.reader import shown_status
from scaffold.cli.regrounding import settings_now
from scaffold.cli.request import read_request
from scaffold.cli.run_settings import run_settings
from scaffold.cli.safe import printable
from scaffold.cli.sandbox import found, sandbox_of
from scaffold.cli.screen import at_terminal
from scaffold.cli.settings import Settings, load_settings
from scaffold.cli.wiring import open_site
from scaffold.core.errors import PlanInvalid, UsageProblem
from scaffold.core.ids import RunId
from scaffold.core.model import Run
from scaffold.core.plan import Plan
from scaffold.core.states import INTERRUPTED
from scaffold.git.repository import open_repository, survey
from scaffold.host.loop import run_async
from scaffold.orchestrator.ending import finish
from scaffold.orchestrator.opening import UNPLANNED, input_hash, open_run, refuse_what_cannot_run
from scaffold.orchestrator.takeover import take_over
from scaffold.plan.lint import lint
from scaffold.plan.planfile import read_plan
from scaffold.plan.single import single
from scaffold.policy.sandbox import require
from scaffold.worker.site import Site

GO_AHEAD = "Start?"
QUICK = "quick"
"""The tier that is not worth a planner."""


class Work(Struct, frozen=True, kw_only=True):
    """What is to be done."""

    request: str
    source: str
    """The text that tells whether the same is asked for again."""
    plan: Plan | None
    """None where there is only a request."""


@click.command()
@click.argument("task", required=False)
@click.option("--spec", metavar="FILE", help="A file that says what is to be done; `-` is standard input.")
@click.option("--plan", "plan_path", metavar="FILE", help="A plan to carry out as it is, YAML or JSON.")
@click.option("--yes", is_flag=True, help="Start without asking; resume if the same input was interrupted.")
@click.option("--trust-once", is_flag=True, help="Let this folder's own configuration count, this time.")
@click.option("--dry-run", is_flag=True, help="Say what would run, as JSON; no model, no cassette, no change.")
@shared_options
def run(task: str | None, spec: str | None, **options: Any) -> int:
    """Plan TASK and carry it out: agents work side by side, each result is proven, what passes lands.

    TASK is in words; with `--spec`, or on standard input, it may be as long as it needs to be. With `--plan` nothing is
    planned; add `--tier` to let what is missing be broken down, and dead ends be replanned. Work lands on
    `session-<run>`; your checkout is not touched, and nothing is pushed.
    """
    flags = flags_of(options)
    return run_async(_run(flags, _work(task, spec, flags)))


def _work(task: str | None, spec: str | None, flags: Flags) -> Work:
    if flags.plan_path is None:
        request = read_request(task, spec, sys.stdin)
        return Work(request=request, source=request, plan=None)
    if task is not None or spec is not None:
        raise UsageProblem("a task and a plan exclude each other", "Leave one of them out.")
    text, plan = _read(flags.plan_path, planner=_plans_on(flags))
    return Work(request=flags.plan_path, source=text, plan=plan)


def _plans_on(flags: Flags) -> bool:
    """Tell whether a plan that is given may be added to."""
    return flags.tier not in {None, QUICK}


def _read(path: str, *, planner: bool) -> tuple[str, Plan]:
    """Return the plan's text and the plan, proven able to reach its goals; warnings go to standard error."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageProblem(f"the plan {path} cannot be read: {error}", "Pass a YAML or JSON file.") from error
    try:
        plan, warnings = read_plan(text, name=path)
    except PlanInvalid as error:
        tell_findings(error.findings, path)
        raise
    report = lint(plan).after(warnings)
    tell_findings(report.findings, path)
    if not report.valid:
        raise PlanInvalid(f"{path} cannot reach its goals", "Mend the plan, then try again.", report.findings)
    if not planner:
        refuse_what_cannot_run(plan)
    return text, plan


async def _run(flags: Flags, work: Work) -> int:
    settings = load_settings(Path.cwd(), os.environ, overrides(flags), trust_once=flags.trust_once)
    for note in settings.notes:
        click.echo(printable(f"note: {note}"), err=True)
    if flags.dry_run:
        return await _dry_run(settings)
    site = await open_site(create=True)
    try:
        return await _begun(site, settings, flags, work)
    finally:
        site.store.close()


async def _begun(site: Site, settings: Settings, flags: Flags, work: Work) -> int:
    """Go on with an interrupted run of the same input, or open one and start it."""
    quick = work.plan is None and settings.tier().name == QUICK
    planner = not quick if work.plan is None else _plans_on(flags)
    where = await survey(site.repository)
    chosen = await run_settings(site, settings, flags, planner=planner)
    again = _interrupted(site, input_hash(work.source, chosen)) if flags.yes else None
    if again is not None:
        click.echo(f"run {again.id} was interrupted: going on with it", err=True)
        with site.store.transaction():
            site.store.runs.configure(again.id, settings_now(site, again, trust_once=flags.trust_once))
        return await go_on(site, again.id, flags)
    tell_interrupted(site)
    started = open_run(
        site.store,
        single(work.request) if quick else work.plan or UNPLANNED,
        request=work.request,
        survey=where,
        settings=chosen,
        source=work.source,
        now=site.clock.now(),
    )
    return await start(site, started, flags)


async def start(site: Site, run: Run, flags: Flags) -> int:
    """Lay a run out if need be, offer it, and carry it out if that is agreed to; else it is saved."""
    if flags.yes and flags.detach:
        return await go_on(site, run.id, flags)
    code = await planned(site, run.id, as_json=flags.as_json)
    if code is not None:
        return code
    await show_offer(site, run.id)
    if not flags.yes and not _agreed():
        _save(site, run.id)
        click.echo(f"saved as run {run.id}; start it with `scaffold resume {run.id}`", err=True)
        tell_result(site, run.id, as_json=flags.as_json)
        return WAITS
    return await go_on(site, run.id, flags)


def _save(site: Site, run_id: RunId) -> None:
    """Put a run down before it has begun, and let go of it: `resume` starts it."""
    finish(site.store, take_over(site, run_id), "saved")


def _agreed() -> bool:
    return at_terminal(sys.stdin) and click.confirm(GO_AHEAD, err=True)


async def _dry_run(settings: Settings) -> int:
    repository = await open_repository(Path.cwd(), environ=os.environ)
    where = await survey(repository)
    require(sandbox_of(settings), await found())
    tier = settings.tier()
    told = {
        "tier": tier.name,
        "tier_confidence": 1.0,
        "base_branch": where.branch,
        "base_sha": where.head,
        "agents": tier.agents,
        "budget": settings.money("budget_usd"),
    }
    click.echo(msgspec.json.encode({"run": told}))
    return 0


def _interrupted(site: Site, digest: str) -> Run | None:
    return next((run for run in site.store.runs.by_input(digest) if shown_status(run) == INTERRUPTED), None)
