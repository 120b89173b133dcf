"""What a run is to keep of the configuration and the command line it was started with."""

from typing import cast

from scaffold.agent.model_access import resolve_model, unenforced_limit_notice
from scaffold.agent.prompts import Notice
from scaffold.config.folder_trust import folder_trust
from scaffold.config.permission_rules import category_decisions
from scaffold.config.prompt_folders import prompt_folders
from scaffold.config.proof import added_areas, environment_settings, gate_settings, with_judges
from scaffold.config.run_flags import RunFlags
from scaffold.config.sandbox import detect_sandbox_level, sandbox_settings
from scaffold.config.settings import Settings
from scaffold.core.errors import UsageError
from scaffold.core.run_settings import (
    ModelSettings,
    PermissionSettings,
    PlanningSettings,
    RunIdentity,
    RunLimits,
    RunSettings,
    SupervisionMode,
)
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
    root, environ, once = site.repository.root, site.environ, flags.trust_once
    limits = run_limits(settings)
    model, tier = chosen_model(settings, limits.budget_usd, notice=notice), settings.tier()
    planning = PlanningSettings(
        plan_path=flags.plan_path or "",
        planner=planner,
        supervision=cast("SupervisionMode", settings.text("supervision")),  # checked where it was set
        prompts=prompt_folders(root, environ, trust_once=once, notice=notice),
    )
    return RunSettings(
        identity=RunIdentity(repository=str(root), author=author, committer=committer),
        model=model,
        tier=tier,
        limits=limits,
        planning=with_judges(planning, threshold=tier.threshold),
        sandbox=sandbox,
        environment=environment_settings(settings, trusted=folder_trust(root, environ, once=once).trusted),
        permissions=permission_settings(settings, yolo=flags.yolo),
        gates=gate_settings(settings),
    )


def run_limits(settings: Settings) -> RunLimits:
    """Return where the run stops, besides the limits of its tier."""
    return RunLimits(
        goal_agents=int(settings.number("max_workers_per_goal")),
        replans=int(settings.number("replans")),
        idle_s=settings.number("idle_s"),
        budget_usd=settings.money("budget_usd"),
    )


def permission_settings(settings: Settings, *, yolo: bool) -> PermissionSettings:
    """Return what agents may do without a human, and how the human is reached."""
    return PermissionSettings(
        allow=settings.texts("permissions.allow"),
        deny=settings.texts("permissions.deny"),
        approvals=category_decisions(settings),
        yolo=yolo,
        areas=added_areas(settings),
        inbox_wait_s=settings.number("inbox.wait_s"),
        notify=settings.text("notify") or "",
    )


def chosen_model(settings: Settings, budget_usd: float | None, *, notice: Notice) -> ModelSettings:
    """Return the model, its string meaning the same from everywhere, with its cassette's digest.

    UsageProblem where none is configured, or a limit in dollars could not be held.
    """
    model = settings.model()
    if model is None:
        raise UsageError("no model is configured", WAYS_TO_A_MODEL)
    pinned, digest = resolve_model(model)
    if text := unenforced_limit_notice(pinned, budget_usd):
        notice(text)
    return ModelSettings(name=pinned, cassette_hash=digest)
