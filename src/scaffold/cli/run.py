"""`run`: carry a plan out, from the command line."""

import asyncio
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import msgspec

from scaffold.cli.desk import shown_status
from scaffold.cli.drive import drive
from scaffold.cli.findings import finding_lines
from scaffold.cli.flags import Flags, flags_of, overrides, shared_options
from scaffold.cli.models import unheld, usable_model
from scaffold.cli.rules import categories_of
from scaffold.cli.safe import printable
from scaffold.cli.sandbox import found, held_by, sandbox_of
from scaffold.cli.screen import at_terminal
from scaffold.cli.settings import Settings, load_settings
from scaffold.cli.wiring import open_site
from scaffold.core.errors import PlanInvalid, UsageProblem
from scaffold.core.model import Run, RunSettings
from scaffold.core.money import dollars
from scaffold.core.plan import Finding, Plan
from scaffold.core.states import INTERRUPTED
from scaffold.git.repository import open_repository, signatures, survey
from scaffold.orchestrator.ending import save
from scaffold.orchestrator.opening import input_hash, open_run, refuse_what_cannot_run
from scaffold.plan.lint import lint
from scaffold.plan.planfile import read_plan
from scaffold.policy.sandbox import require
from scaffold.worker.site import Site

WAITS_FOR_A_HUMAN = 3
GO_AHEAD = "Start?"


@click.command()
@click.argument("task", required=False)
@click.option("--plan", "plan_path", metavar="FILE", help="The plan to carry out, YAML or JSON.")
@click.option("--tier", type=click.Choice(["quick", "scout", "builder", "architect"]), help="Whose numbers to use.")
@click.option("--yes", is_flag=True, help="Start without asking; resume if the same input was interrupted.")
@click.option("--trust-once", is_flag=True, help="Let this folder's own configuration count, this time.")
@click.option("--dry-run", is_flag=True, help="Say what would run, as JSON; no model, no cassette, no change.")
@shared_options
def run(task: str | None, **options: Any) -> int:
    """Carry a plan out: agents work side by side, each result is proven, what passes lands on `session-<run>`.

    Your checkout is not touched, and nothing is pushed.
    """
    flags = flags_of(options)
    if flags.plan_path is None:
        asked = f"`{task}`" if task else "a task"
        raise UsageProblem(
            f"this version has no planner to turn {asked} into a plan",
            "Write the plan yourself and pass it with `--plan FILE`; `scaffold init` prints one to start from.",
        )
    if task is not None:
        raise UsageProblem("a task and a plan exclude each other", "Leave one of them out.")
    return asyncio.run(_run(flags, *_read(flags.plan_path)))


def _read(path: str) -> tuple[str, Plan]:
    """Return the plan's text and the plan, proven able to reach its goals; warnings go to standard error."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageProblem(f"the plan {path} cannot be read: {error}", "Pass a YAML or JSON file.") from error
    try:
        plan, warnings = read_plan(text, name=path)
    except PlanInvalid as error:
        _tell(error.findings, path)
        raise
    report = lint(plan).after(warnings)
    _tell(report.findings, path)
    if not report.valid:
        raise PlanInvalid(f"{path} cannot reach its goals", "Mend the plan, then try again.", report.findings)
    refuse_what_cannot_run(plan)
    return text, plan


def _tell(findings: Iterable[Finding], path: str) -> None:
    for finding in findings:
        click.echo(finding_lines(finding, path), err=True)


async def _run(flags: Flags, text: str, plan: Plan) -> int:
    settings = load_settings(Path.cwd(), os.environ, overrides(flags), trust_once=flags.trust_once)
    for note in settings.notes:
        click.echo(printable(f"note: {note}"), err=True)
    if flags.dry_run:
        return await _dry_run(settings)
    site = await open_site(create=True)
    try:
        where = await survey(site.repository)
        chosen = await _settings(site, settings, flags)
        again = _interrupted(site, input_hash(text, chosen)) if flags.yes else None
        if again is not None:
            click.echo(f"run {again.id} was interrupted: going on with it", err=True)
            return await drive(site, again.id, as_json=flags.as_json)
        started = open_run(
            site.store,
            plan,
            request=flags.plan_path or "",
            survey=where,
            settings=chosen,
            source=text,
            now=site.clock.now(),
        )
        return await _start(site, started, plan, flags)
    finally:
        site.store.close()


async def _start(site: Site, started: Run, plan: Plan, flags: Flags) -> int:
    click.echo(f"{_offer(started, plan)}\n{held_by(await found(), started.settings)}", err=True)
    if not flags.yes and not _agreed():
        save(site.store, started)
        click.echo(f"saved as run {started.id}; start it with `scaffold resume {started.id}`", err=True)
        return WAITS_FOR_A_HUMAN
    return await drive(site, started.id, as_json=flags.as_json)


def _offer(run: Run, plan: Plan) -> str:
    settings = run.settings
    cap = "no cap" if settings.budget_usd is None else f"at most {dollars(settings.budget_usd)}"
    payer = "replayed from a file, nobody pays" if settings.model.startswith("cassette:") else "you pay by your key"
    return (
        f"{len(plan.actions)} actions in {len(plan.goals)} goals, up to {settings.agents} agents at once\n"
        f"model {settings.model} ({payer}), {cap}\n"
        f"lands on {run.session_branch}, from {run.base_branch or 'a detached head'} at {run.base_sha[:8]}"
    )


def _agreed() -> bool:
    return at_terminal(sys.stdin) and click.confirm(GO_AHEAD, err=True)


async def _settings(site: Site, settings: Settings, flags: Flags) -> RunSettings:
    sandbox = sandbox_of(settings)
    require(sandbox, await found())
    model = settings.model()
    if model is None:
        raise UsageProblem(
            "no model is configured",
            "Pass `--model anthropic:NAME`, `--model cassette:FILE` or another model string, or set SCAFFOLD_MODEL; "
            "`scaffold demo` needs neither.",
        )
    author, committer = await signatures(site.repository)
    pinned, digest = usable_model(model)
    budget_usd = settings.money("budget_usd")
    if notice := unheld(pinned, budget_usd):
        click.echo(f"note: {notice}", err=True)
    tier = settings.tier()
    return RunSettings(
        repository=str(site.repository.root),
        model=pinned,
        model_hash=digest,
        author=author,
        committer=committer,
        plan_path=flags.plan_path or "",
        tier=tier.name,
        agents=tier.agents,
        iterations=tier.iterations,
        attempt_timeout_s=tier.timeout_s,
        budget_usd=budget_usd,
        sandbox=sandbox.mode,
        network=sandbox.network,
        hosts=sandbox.hosts,
        memory_gb=settings.number("sandbox.memory_gb"),
        yolo=flags.yolo,
        inbox_wait_s=settings.number("inbox.wait_s"),
        allow=settings.texts("permissions.allow"),
        deny=settings.texts("permissions.deny"),
        approvals=categories_of(settings),
        environment=settings.texts("environment"),
    )


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
