"""What a run is to keep of the configuration and the command line it was started with."""

from typing import cast

from scaffold.agent.model_access import resolve_model, unenforced_limit_notice
from scaffold.agent.prompts import Notice
from scaffold.config.folder_trust import folder_trust
from scaffold.config.permission_rules import category_decisions
from scaffold.config.prompt_folders import prompt_folders
from scaffold.config.proof import gate_settings, review_settings
from scaffold.config.run_flags import RunFlags
from scaffold.config.sandbox import detect_sandbox_level, sandbox_settings
from scaffold.config.settings import Settings
from scaffold.core.errors import UsageError
from scaffold.core.model import RunSettings, SupervisionMode
from scaffold.git.repository import signatures
from scaffold.policy.sandbox_setup import require_sandbox
from scaffold.run.context import RunContext

WAYS_TO_A_MODEL = (
    "Pass `--model anthropic:NAME`, `--model cassette:FILE` or another model string, or set SCAFFOLD_MODEL; "
    "`scaffold demo` needs neither."
)


async def run_settings(
    site: RunContext, settings: Settings, flags: RunFlags, *, planner: bool, notice: Notice
) -> RunSettings:
    """Return the settings that are stored with a run and that all its processes use.

    `planner` says whether an agent may plan, decompose and replan. `notice` receives warnings for the user.
    UsageError without a model, TrustError without a required sandbox.
    """
    sandbox = sandbox_settings(settings)
    require_sandbox(sandbox, await detect_sandbox_level())
    author, committer = await signatures(site.repository)
    budget_usd = settings.money("budget_usd")
    pinned, digest = chosen_model(settings, budget_usd, notice=notice)
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
        approvals=category_decisions(settings),
        environment=settings.texts("environment"),
        planner=planner,
        supervision=cast("SupervisionMode", settings.text("supervision")),  # checked where it was set
        replans=int(settings.number("replans")),
        prompts=prompt_folders(site.repository.root, site.environ, trust_once=flags.trust_once, notice=notice),
        notify=settings.text("notify") or "",
        trusted=folder_trust(site.repository.root, site.environ, once=flags.trust_once).trusted,
        **review_settings(settings, tier, planner=planner),
        **gate_settings(settings),
    )


def chosen_model(settings: Settings, budget_usd: float | None, *, notice: Notice) -> tuple[str, str]:
    """Return the model string, meaning the same from everywhere, and its cassette's digest ("" for others).

    UsageProblem where none is configured, or a limit in dollars could not be held.
    """
    model = settings.model()
    if model is None:
        raise UsageError("no model is configured", WAYS_TO_A_MODEL)
    pinned, digest = resolve_model(model)
    if text := unenforced_limit_notice(pinned, budget_usd):
        notice(text)
    return pinned, digest
