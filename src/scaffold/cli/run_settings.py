"""What a run is to keep of the configuration and the command line it was started with."""

from typing import cast

import click

from scaffold.cli.flags import Flags
from scaffold.cli.models import unheld, usable_model
from scaffold.cli.prompts import prompt_folders
from scaffold.cli.quality import groundwork, quality
from scaffold.cli.rules import categories_of
from scaffold.cli.safe import printable
from scaffold.cli.sandbox import found, sandbox_of
from scaffold.cli.settings import Settings
from scaffold.cli.trusted import trusted_folder
from scaffold.core.errors import UsageProblem
from scaffold.core.model import RunSettings, Supervision
from scaffold.git.repository import signatures
from scaffold.policy.sandbox import require
from scaffold.worker.site import Site

WAYS_TO_A_MODEL = (
    "Pass `--model anthropic:NAME`, `--model cassette:FILE` or another model string, or set SCAFFOLD_MODEL; "
    "`scaffold demo` needs neither."
)


async def run_settings(site: Site, settings: Settings, flags: Flags, *, planner: bool) -> RunSettings:
    """Return everything later processes need; what is missing or cannot be had is told here, before work.

    With `planner` somebody may lay out, break down and replan.
    """
    sandbox = sandbox_of(settings)
    require(sandbox, await found())
    author, committer = await signatures(site.repository)
    budget_usd = settings.money("budget_usd")
    pinned, digest = chosen_model(settings, budget_usd)
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
        goal_agents=int(settings.number("max_workers_per_goal")),
        iterations=tier.iterations,
        attempt_timeout_s=tier.timeout_s,
        budget_usd=budget_usd,
        sandbox=sandbox.mode,
        network=sandbox.network,
        hosts=sandbox.hosts,
        memory_gb=settings.number("sandbox.memory_gb"),
        yolo=flags.yolo,
        inbox_wait_s=settings.number("inbox.wait_s"),
        idle_s=settings.number("idle_s"),
        allow=settings.texts("permissions.allow"),
        deny=settings.texts("permissions.deny"),
        approvals=categories_of(settings),
        environment=settings.texts("environment"),
        planner=planner,
        supervision=cast("Supervision", settings.text("supervision")),  # checked where it was set
        replans=int(settings.number("replans")),
        prompts=prompt_folders(site.repository.root, site.environ, trust_once=flags.trust_once, notice=_note),
        notify=settings.text("notify") or "",
        trusted=trusted_folder(site.repository.root, site.environ, once=flags.trust_once).trusted,
        **quality(settings, tier, planner=planner),
        **groundwork(settings),
    )


def _note(text: str) -> None:
    click.echo(printable(f"note: {text}"), err=True)


def chosen_model(settings: Settings, budget_usd: float | None) -> tuple[str, str]:
    """Return the model string, meaning the same from everywhere, and its cassette's digest ("" for others).

    UsageProblem where none is configured, or a limit in dollars could not be held.
    """
    model = settings.model()
    if model is None:
        raise UsageProblem("no model is configured", WAYS_TO_A_MODEL)
    pinned, digest = usable_model(model)
    if notice := unheld(pinned, budget_usd):
        click.echo(f"note: {notice}", err=True)
    return pinned, digest
