"""`run` and `resume`: carry a plan out, from the command line."""

import asyncio
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from random import SystemRandom  # noqa: TID251 - jitter needs no seed
from typing import Any, Literal

import click
import msgspec
from msgspec import Struct

from scaffold.cli.drive import drive
from scaffold.cli.findings import finding_lines
from scaffold.cli.settings import Setting, Settings, load_settings
from scaffold.cli.wiring import find_run, open_site, shown_status
from scaffold.core.errors import PlanInvalid, TrustProblem, UsageProblem
from scaffold.core.model import Run, RunSettings
from scaffold.core.plan import Finding, Plan
from scaffold.core.states import INTERRUPTED, Paused, status_of
from scaffold.git.repository import open_repository, signatures, survey
from scaffold.llm.catalog import cassette_digest, open_model, pinned_model
from scaffold.orchestrator.ending import save
from scaffold.orchestrator.opening import input_hash, open_run, refuse_what_cannot_run
from scaffold.plan.lint import lint
from scaffold.plan.planfile import read_plan
from scaffold.worker.site import Site

WAITS_FOR_A_HUMAN = 3
NO_SANDBOX = "warning: this version has no sandbox: what agents run can reach everything you can, and nobody is asked"
GO_AHEAD = "Start?"

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class Flags(Struct, frozen=True, kw_only=True):
    """What `run` and `resume` were called with; None where a flag was not given."""

    model: str | None = None
    agents: int | None = None
    budget_usd: float | None = None
    sandbox: Literal["require", "auto", "off"] = "auto"
    yolo: bool = False
    as_json: bool = False
    tier: str | None = None
    plan_path: str | None = None
    yes: bool = False
    dry_run: bool = False


def shared_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that `run` and `resume` share."""
    options: list[Decorator] = [
        click.option("--model", metavar="MODEL", help="A model string, e.g. `cassette:replies.yaml`."),
        click.option("--agents", type=click.IntRange(1, 20), metavar="N", help="How many agents work at once."),
        click.option("--budget-usd", type=click.FloatRange(min=0.0), metavar="X", help="Start no request beyond this."),
        click.option("--sandbox", type=click.Choice(["require", "auto", "off"]), default="auto", show_default=True),
        click.option("--yolo", is_flag=True, help="Workers are never asked."),
        click.option("--json", "as_json", is_flag=True, help="One event a line; the last is the result."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


@click.command()
@click.argument("task", required=False)
@click.option("--plan", "plan_path", metavar="FILE", help="The plan to carry out, YAML or JSON.")
@click.option("--tier", type=click.Choice(["quick", "scout", "builder", "architect"]), help="Whose numbers to use.")
@click.option("--yes", is_flag=True, help="Start without asking; resume if the same input was interrupted.")
@click.option("--dry-run", is_flag=True, help="Say what would run, as JSON; no model, no cassette, no change.")
@shared_options
def run(task: str | None, **options: Any) -> int:
    """Carry a plan out: agents work side by side, each result is proven, what passes lands on `session-<run>`.

    Your checkout is not touched, and nothing is pushed.
    """
    flags = _flags(options)
    if flags.plan_path is None:
        asked = f"`{task}`" if task else "a task"
        raise UsageProblem(
            f"this version has no planner to turn {asked} into a plan",
            "Write the plan yourself and pass it with `--plan FILE`; `scaffold init` prints one to start from.",
        )
    if task is not None:
        raise UsageProblem("a task and a plan exclude each other", "Leave one of them out.")
    return asyncio.run(_run(flags, *_read(flags.plan_path)))


@click.command()
@click.argument("run_name", metavar="[RUN]", required=False)
@shared_options
def resume(run_name: str | None, **options: Any) -> int:
    """Go on with RUN, or with the latest that was interrupted or paused; flags override what it began with."""
    return asyncio.run(_resume(run_name, _flags(options)))


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


def _flags(options: Mapping[str, Any]) -> Flags:
    """Return the flags; the plan's path is made absolute, since it is stored with the run."""
    plan_path = options.get("plan_path")
    return msgspec.convert({**options, "plan_path": plan_path and str(Path(plan_path).absolute())}, Flags)


async def _run(flags: Flags, text: str, plan: Plan) -> int:
    _refuse_sandbox(flags)
    if flags.dry_run:
        return await _dry_run(flags)
    site = await open_site(create=True)
    try:
        where = await survey(site.repository)
        settings = load_settings(site.repository.root, os.environ, _overrides(flags))
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
    click.echo(_offer(started, plan), err=True)
    if not flags.yes and not _agreed():
        save(site.store, started)
        click.echo(f"saved as run {started.id}; start it with `scaffold resume {started.id}`", err=True)
        return WAITS_FOR_A_HUMAN
    return await drive(site, started.id, as_json=flags.as_json)


def _offer(run: Run, plan: Plan) -> str:
    settings = run.settings
    cap = "no cap" if settings.budget_usd is None else f"at most ${settings.budget_usd:.2f}"
    payer = "replayed from a file, nobody pays" if settings.model.startswith("cassette:") else "you pay by your key"
    return (
        f"{len(plan.actions)} actions in {len(plan.goals)} goals, up to {settings.agents} agents at once\n"
        f"model {settings.model} ({payer}), {cap}\n"
        f"lands on {run.session_branch}, from {run.base_branch or 'a detached head'} at {run.base_sha[:8]}\n"
        f"{NO_SANDBOX}"
    )


def _agreed() -> bool:
    return sys.stdin.isatty() and click.confirm(GO_AHEAD, err=True)


async def _settings(site: Site, settings: Settings, flags: Flags) -> RunSettings:
    model = settings.text("model")
    if model is None:
        raise UsageProblem(
            "no model is configured",
            "Pass `--model cassette:FILE`, or set SCAFFOLD_MODEL; `scaffold demo` needs neither.",
        )
    author, committer = await signatures(site.repository)
    pinned = pinned_model(model)
    open_model(pinned, clock=site.clock, rng=SystemRandom())  # what cannot answer is told now, not by every worker
    tier = settings.tier()
    return RunSettings(
        repository=str(site.repository.root),
        model=pinned,
        model_hash=cassette_digest(pinned),
        author=author,
        committer=committer,
        plan_path=flags.plan_path or "",
        tier=tier.name,
        agents=tier.agents,
        iterations=tier.iterations,
        attempt_timeout_s=tier.timeout_s,
        budget_usd=settings.money("budget_usd"),
        yolo=flags.yolo,
    )


async def _dry_run(flags: Flags) -> int:
    repository = await open_repository(Path.cwd(), environ=os.environ)
    where = await survey(repository)
    settings = load_settings(repository.root, os.environ, _overrides(flags))
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


def _overrides(flags: Flags) -> dict[str, Setting]:
    return {"model": flags.model, "tier": flags.tier, "agents": flags.agents, "budget_usd": flags.budget_usd}


def _interrupted(site: Site, digest: str) -> Run | None:
    return next((run for run in site.store.runs.by_input(digest) if shown_status(run) == INTERRUPTED), None)


async def _resume(name: str | None, flags: Flags) -> int:
    _refuse_sandbox(flags)
    site = await open_site()
    try:
        run = find_run(site, name) if name else _latest_to_resume(site)
        status = shown_status(run)
        if status not in {INTERRUPTED, "paused", "active"}:
            fix = "Give it another chance with `scaffold retry`." if status == "failed" else "Start a new run."
            raise UsageProblem(f"run {run.id} is {status}: there is nothing to go on with", fix)
        _reconfigure(site, run, flags)
        return await drive(site, run.id, as_json=flags.as_json)
    finally:
        site.store.close()


def _latest_to_resume(site: Site) -> Run:
    for run in site.store.runs.all():
        if shown_status(run) == INTERRUPTED or isinstance(run.state, Paused):
            return run
    latest = site.store.runs.latest()
    about = f"the latest, {latest.id}, is {status_of(latest.state)}" if latest else "there is none"
    raise UsageProblem(f"no run was interrupted or paused: {about}", "Start one with `scaffold run --plan FILE`.")


def _reconfigure(site: Site, run: Run, flags: Flags) -> None:
    """Store the flags that override the run's settings; a cassette that changed since is refused."""
    changes: dict[str, object] = {}
    if flags.model is not None:
        pinned = pinned_model(flags.model)
        changes = {"model": pinned, "model_hash": cassette_digest(pinned)}
    elif cassette_digest(run.settings.model) != run.settings.model_hash:
        raise UsageProblem(
            f"the cassette of run {run.id} has changed since it began",
            f"Bring the old file back, or choose anew with `scaffold resume {run.id} --model cassette:FILE`.",
        )
    if flags.agents is not None:
        changes["agents"] = flags.agents
    if flags.budget_usd is not None:
        changes["budget_usd"] = flags.budget_usd
    if changes:
        with site.store.transaction():
            site.store.runs.configure(run.id, msgspec.structs.replace(run.settings, **changes))


def _refuse_sandbox(flags: Flags) -> None:
    if flags.sandbox == "require":
        raise TrustProblem(
            "a sandbox is required, and this version has none",
            "Run without `--sandbox require` in a container or a machine of its own.",
        )
