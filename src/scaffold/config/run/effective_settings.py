"""The settings of a run, from the configuration and the command line; a resumed run reads some of them again."""

from collections.abc import Iterable
from pathlib import Path
from typing import cast, get_args

from msgspec import Struct, structs

from scaffold.agent.model_access import resolve_model, unenforced_limit_notice
from scaffold.agent.prompts import Notice, ignore_notice
from scaffold.config.folder_trust import folder_trust, prompt_folders
from scaffold.config.permission_settings import detect_sandbox_level, permission_settings, sandbox_settings
from scaffold.config.run.executor_choice import executor_settings
from scaffold.config.run.role_models import RunModels, run_models
from scaffold.config.run.spending_limits import budget_tokens, with_default_tokens, with_more, with_tier_tokens
from scaffold.config.schema.parsers import AUTO, OFF, SIZES, ConfigValue
from scaffold.config.settings import Settings, load_settings
from scaffold.config.trusted_extensions import run_extensions
from scaffold.core.errors import UsageError
from scaffold.core.executor_settings import NATIVE, ExecutorSettings
from scaffold.core.model import Run
from scaffold.core.plan import Plan
from scaffold.core.proof.gates import Gate, GateKind, TaggedTests
from scaffold.core.run_settings import (
    AssignedModels,
    EnvironmentSettings,
    FailureSettings,
    GateSettings,
    HumanReview,
    KeepSettings,
    LandingSettings,
    LearningSettings,
    McpSettings,
    ModelSettings,
    PlanningSettings,
    PluginSettings,
    ReviewerSettings,
    RunIdentity,
    RunLimits,
    RunSettings,
    SandboxMode,
    SchedulingSettings,
    SupervisionMode,
    TakingSettings,
    Tier,
    TierChoice,
    program_model,
)
from scaffold.git.ignored_files import pattern_lines
from scaffold.git.repository import signatures
from scaffold.host.startup import importing
from scaffold.llm.model_factory import cassette_digest
from scaffold.llm.registry.model_name import parse_model
from scaffold.plan.budget import agreed_actions, spending_limits
from scaffold.policy.command_sandbox import require_sandbox
from scaffold.policy.trust_decision import INCLUDE_FILE, TrustStatus
from scaffold.run.context import RunContext

CHOSEN = TierChoice()
"""The user chose the tier."""


class RunFlags(Struct, frozen=True, kw_only=True):
    """The flags that `run` and `resume` were called with; None for a flag that was not given."""

    model: str | None = None
    executor: str | None = None
    agents: int | None = None
    budget_usd: float | None = None
    budget_tokens: int | None = None
    sandbox: SandboxMode | None = None
    yolo: bool = False
    as_json: bool = False
    quiet: bool = False
    tier: str | None = None
    plan_path: str | None = None
    yes: bool = False
    dry_run: bool = False
    trust_once: bool = False
    detach: bool = False
    greenfield: bool = False
    pr: bool = False
    write_back: bool = False
    until_complied: bool = False
    one_shot: bool = False
    rounds: int = 0


def setting_overrides(flags: RunFlags) -> dict[str, ConfigValue]:
    """Return the settings that the flags override, by dotted name."""
    return {
        "model": flags.model,
        "tier": flags.tier,
        "agents": flags.agents,
        "budget_usd": flags.budget_usd,
        "budget_tokens": flags.budget_tokens,
        "sandbox.mode": flags.sandbox,
    }


async def run_settings(
    context: RunContext,
    settings: Settings,
    flags: RunFlags,
    *,
    planner: bool,
    notice: Notice,
    choice: TierChoice = CHOSEN,
) -> RunSettings:
    """Return the settings that are stored with a run and that all its processes use.

    `choice` says how the tier of `settings` was found, `planner` whether an agent may plan, decompose and replan.
    `notice` receives warnings for the user. Raise UsageError without a model, TrustError without a required sandbox.
    """
    sandbox, executors = sandbox_settings(settings), with_executor(executor_settings(settings), flags.executor)
    # Before anything is stored: a run that could never work in its sandbox should not exist.
    require_sandbox(sandbox, await detect_sandbox_level())
    root, once, limits, tier = context.repository.root, flags.trust_once, run_limits(settings), settings.tier()
    trust = _repository_trust(root, once=once, notice=notice)
    model = (models := _needed_models(settings, tier, executors, limits.budget_usd, notice=notice)).model
    planning = planning_settings(settings, flags, planner=planner)
    planning = structs.replace(planning, prompts=prompt_folders(root, trust_once=once, notice=notice))
    planning, failures = _with_judges(planning, settings, tier, model, executors), failure_settings(settings, model)
    others = (planning.reviewer and planning.reviewer.model, failures.other_model)
    _tell_unenforced_limits((each.name for each in others if each and each != model), limits.budget_usd, notice)
    author, committer = await signatures(context.repository)
    found = RunSettings(
        identity=RunIdentity(repository=str(root), author=author, committer=committer),
        model=model,
        assigned=models.assigned,
        tier=tier,
        choice=structs.replace(choice, fixed_agents=settings.values["agents"].value is not None),
        limits=limits,
        planning=planning,
        sandbox=sandbox,
        environment=environment_settings(settings, trust),
        permissions=permission_settings(settings, yolo=flags.yolo),
        gates=gate_settings(settings),
        landing=landing_settings(settings),
        scheduling=scheduling_settings(settings),
        failures=failures,
        learning=learning_settings(settings, planner=planner),
        keep=keep_settings(settings),
        taking=taking_settings(settings, flags),
        plugins=PluginSettings(workers=settings.texts("plugins.workers"), network=settings.texts("plugins.network")),
        mcp=McpSettings(workers=settings.texts("mcp.workers"), trust_once=once),
        executors=executors,
        extensions=run_extensions(context.repository, settings, trust, keep=not flags.dry_run, notice=notice),
    )
    return structs.replace(found, limits=with_default_tokens(limits, settings, tier, found.models))


def _needed_models(
    settings: Settings, tier: Tier, executors: ExecutorSettings, budget_usd: float | None, *, notice: Notice
) -> RunModels:
    # Where programs do everything, none is looked for: who pays for a subscription needs no key.
    if not executors.needs_model(tier.name):
        return RunModels(program_model(executors.chosen("", tier.name)), AssignedModels())
    return chosen_models(settings, tier, budget_usd, notice=notice)


def with_executor(configured: ExecutorSettings, name: str | None) -> ExecutorSettings:
    """Return who works in a run for which the user chose an executor; None if they did not.

    As with a model, roles that have one of their own keep it. Raises UsageError if there is none of this name.
    """
    if name is None:
        return configured
    if name != NATIVE:
        with importing():
            from scaffold.executors.catalog import find_program
        find_program(name, configured.programs)
    return structs.replace(configured, default=name, tiers={})


def planning_settings(settings: Settings, flags: RunFlags, *, planner: bool) -> PlanningSettings:
    """Return the source of the plan and how its goals are supervised, without agents that judge work."""
    return PlanningSettings(
        plan_path=flags.plan_path or "",
        planner=planner,
        one_shot=flags.one_shot,
        rounds=flags.rounds,
        until_complied=flags.until_complied,
        supervision=cast("SupervisionMode", settings.text("supervision")),  # the parser checked it
    )


def learning_settings(settings: Settings, *, planner: bool) -> LearningSettings:
    """Return what attempts learn from earlier work, and what they leave for later work."""
    return LearningSettings(
        tokens=int(settings.number("learning.tokens")),
        # Without a planner, a run makes no other requests than those of its workers.
        extract=planner and settings.text("learning.extract") == "on",
    )


def taking_settings(settings: Settings, flags: RunFlags) -> TakingSettings:
    """Return what happens to the work of a completed run; flags override the configuration."""
    configured = settings.text("publish") == "pr" and not flags.greenfield
    return TakingSettings(fast_forward=flags.greenfield, pull_request=flags.pr or configured)


def chosen_models(settings: Settings, tier: Tier, budget_usd: float | None, *, notice: Notice) -> RunModels:
    """Return the models of a run as `run_models` does; `notice` also receives limits that cannot be enforced."""
    found = run_models(settings, tier, notice=notice)
    names = [found.model.name, *found.model.others]
    for each in (*found.assigned.by_role.values(), *found.assigned.by_task.values()):
        names += [each.name, *each.others]
    _tell_unenforced_limits(dict.fromkeys(names), budget_usd, notice)
    return found


def chosen_reviewer(
    settings: Settings, tier: Tier, model: ModelSettings, executors: ExecutorSettings
) -> ReviewerSettings | None:
    """Return the second reviewer of a run whose work `model` does; None if the tier or the configuration has none."""
    word = settings.text("reviewer.model") or OFF
    if word == OFF or tier.review == "none":
        return None
    share = settings.number("reviewer.share") if tier.review_share is None else tier.review_share
    if (executor := executors.chosen("reviewer", tier.name)) != NATIVE:
        return ReviewerSettings(model=program_model(executor), share=share)
    return ReviewerSettings(model=_model_besides(settings, word, model), share=share)


def failure_settings(settings: Settings, model: ModelSettings) -> FailureSettings:
    """Return how a run with `model` treats attempts that take long or fail."""
    word = settings.text("other_approach.model") or OFF
    other = None if word == OFF else _model_besides(settings, word, model)
    return FailureSettings(soft_timeout=settings.number("soft_timeout"), other_model=other)


def _model_besides(settings: Settings, word: str, model: ModelSettings) -> ModelSettings:
    """Return the second model that `word` names; `auto` is another size, if one is configured."""
    size, wanted = _other_size(settings, model.name) if word == AUTO else (word, settings.model_of(word))
    if wanted == model.name:
        return model
    name, cassette_hash = resolve_model(wanted)
    return ModelSettings(
        name=name,
        cassette_hash=cassette_hash,
        effort=settings.effort(size),
        role_efforts=settings.role_efforts(),
        windows=model.windows,
        profiles=model.profiles,
    )


def _other_size(settings: Settings, name: str) -> tuple[str, str]:
    # Another provider is not considered: the user did not choose to show it this run's code.
    mine = parse_model(name)
    if mine.provider in {"cassette", "executor"}:
        return "", name
    others = ((size, text) for size in reversed(SIZES) for text in settings.models(size) if text != name)
    known = ((size, text, parse_model(text)) for size, text in others)
    same = ((size, text) for size, text, each in known if (each.provider, each.url) == (mine.provider, mine.url))
    return next(same, ("", name))


def _tell_unenforced_limits(names: Iterable[str], budget_usd: float | None, notice: Notice) -> None:
    # A program says itself what it costs, or it is found out from its tokens.
    for name in names:
        if parse_model(name).provider != "executor" and (text := unenforced_limit_notice(name, budget_usd)):
            notice(text)


def run_limits(settings: Settings) -> RunLimits:
    """Return the limits of a run in addition to those of its tier."""
    return RunLimits(
        goal_agents=int(settings.number("max_workers_per_goal")),
        replans=int(settings.number("replans")),
        idle_s=settings.number("idle_s"),
        model_wait_s=settings.number("model_wait_s"),
        budget_usd=settings.money("budget_usd"),
        budget_tokens=budget_tokens(settings),
    )


def planned_tokens(settings: Settings, flags: RunFlags, plan: Plan) -> int | None:
    """Return how many tokens a run of this plan may use; None if a limit in dollars takes the place of the default.

    A plan without actions is a request that is yet to be planned.
    """
    chosen = settings.text("model")
    words = SIZES if chosen is None else (chosen,)
    models = [ModelSettings(name=name) for word in words for name in settings.models(word)]
    limits = with_default_tokens(run_limits(settings), settings, settings.tier(), models)
    if plan.actions:
        planning = planning_settings(settings, flags, planner=False)
        limits = structs.replace(limits, agreed_actions=agreed_actions(planning, plan.actions))
    return spending_limits(limits).tokens


def gate_settings(settings: Settings) -> GateSettings:
    """Return the settings of gates and their baseline."""
    kinds = {kind: settings.text(f"quality_gates.{kind}") for kind in get_args(GateKind)}
    given = {kind: command for kind, command in kinds.items() if command not in {None, AUTO, OFF}}
    return GateSettings(
        enabled=any(command != OFF for command in kinds.values()),
        given=tuple(Gate(kind=kind, command=str(command)) for kind, command in given.items()),
        off=tuple(kind for kind, command in kinds.items() if command == OFF),
        timeout_s=settings.number("quality_gates.timeout_s"),
        tagged=tuple(map(_tagged_tests, settings.texts("quality_gates.tags"))),
        slots=int(settings.number("quality_gates.slots")),
    )


def landing_settings(settings: Settings) -> LandingSettings:
    """Return the settings of landing."""
    return LandingSettings(
        union=settings.texts("landing.union"), human_review=cast("HumanReview", settings.text("reviews.human"))
    )


def scheduling_settings(settings: Settings) -> SchedulingSettings:
    """Return the settings for what may run at the same time."""
    return SchedulingSettings(
        collisions=settings.text("collisions") != OFF, directory_agents=int(settings.number("agents_per_directory"))
    )


def keep_settings(settings: Settings) -> KeepSettings:
    """Return the limits of kept data and of free disk space."""
    return KeepSettings(
        ignored_mb=settings.number("keep.ignored_mb"),
        days=settings.number("keep.days"),
        logs_mb=settings.number("keep.logs_mb"),
        free_mb=settings.number("keep.free_mb"),
    )


def environment_settings(settings: Settings, trust: TrustStatus) -> EnvironmentSettings:
    """Return the environment of commands and checks; `trust` is the repository's."""
    setup = settings.texts("setup")
    return EnvironmentSettings(
        variables=settings.texts("environment"),
        source=settings.text("env.from") or "",
        setup=None if not setup else () if setup == (OFF,) else setup,
        services=settings.texts("services"),
        include=pattern_lines(trust.content(INCLUDE_FILE) or b""),
        trusted=trust.trusted,
        hooks=trust.hook_digests,
    )


def _repository_trust(root: Path, *, once: bool, notice: Notice) -> TrustStatus:
    """Return the repository's trust; `notice` is told of files that should be copied and are not."""
    trust = folder_trust(root, once=once)
    if not trust.trusted and any(piece.name == INCLUDE_FILE and not piece.blank for piece in trust.folder.pieces):
        notice(f"{INCLUDE_FILE} ignored: {trust.reason}; `scaffold trust` trusts it.")
    return trust


def resume_settings(context: RunContext, run: Run, flags: RunFlags) -> RunSettings:
    """Return the settings stored with the run, overridden by the flags.

    Commands may read what the user shows them now. A run without a baseline also takes the gate settings as they are
    configured now. Raises UsageError if the run's cassette has changed.
    """
    settings, root, once = run.settings, context.repository.root, flags.trust_once
    configured = load_settings(root, context.environ, {}, trust_once=once)
    sandbox = structs.replace(settings.sandbox, read=sandbox_settings(configured).read)
    settings = structs.replace(settings, sandbox=sandbox)
    # With a baseline the gates are settled: results of other gates could not be compared with it.
    if context.store.baselines.for_run(run.id) is None:
        trust = folder_trust(root, once=once)
        settings = with_gates(settings, configured, trust)
    return _with_flags(context, run, settings, flags)


def resumed_taking(stored: TakingSettings, flags: RunFlags) -> TakingSettings:
    """Return what happens to the work of a run that is resumed: as the flags say, else as it was stored."""
    if flags.greenfield or flags.pr:
        return TakingSettings(fast_forward=flags.greenfield, pull_request=flags.pr)
    return stored


def _with_flags(context: RunContext, run: Run, settings: RunSettings, flags: RunFlags) -> RunSettings:
    settings = _with_chosen(context, settings, flags)
    for used in settings.models:
        if cassette_digest(used.name) != used.cassette_hash:
            raise UsageError(
                f"the cassette of run {run.id} has changed since the run started",
                f"Restore the file, or choose another with `scaffold resume {run.id} --model cassette:FILE`.",
            )
    if flags.agents is not None:
        settings = structs.replace(
            settings,
            tier=structs.replace(settings.tier, agents=flags.agents),
            choice=structs.replace(settings.choice, fixed_agents=True),
        )
    settings = structs.replace(settings, limits=with_more(settings, usd=flags.budget_usd, tokens=flags.budget_tokens))
    if flags.sandbox is not None:
        sandbox = structs.replace(settings.sandbox, mode=flags.sandbox, unconfined=flags.sandbox == "off")
        settings = structs.replace(settings, sandbox=sandbox)
    settings = structs.replace(settings, taking=resumed_taking(settings.taking, flags))
    settings = structs.replace(settings, executors=with_executor(settings.executors, flags.executor))
    if settings.executors.needs_model(settings.tier.name) and parse_model(settings.model.name).provider == "executor":
        raise UsageError(f"run {run.id} has no model for our own agents", "Pass one with `--model`.")
    if flags.yolo:
        settings = structs.replace(settings, permissions=structs.replace(settings.permissions, yolo=True))
    return settings


def _with_chosen(context: RunContext, settings: RunSettings, flags: RunFlags) -> RunSettings:
    if flags.tier is None and flags.model is None:
        return settings
    given = {"tier": flags.tier, "model": flags.model}
    chosen = load_settings(context.repository.root, context.environ, given, trust_once=flags.trust_once)
    if flags.model is not None:
        settings = _with_models(settings, run_models(chosen, settings.tier, notice=ignore_notice))
    return settings if flags.tier is None else with_tier(settings, chosen)


def _with_models(settings: RunSettings, found: RunModels) -> RunSettings:
    before, reviewer, main = settings.model, settings.planning.reviewer, found.model
    model = structs.replace(before, name=main.name, cassette_hash=main.cassette_hash, others=main.others)
    if reviewer is not None and reviewer.model == before:
        reviewer = structs.replace(reviewer, model=model)
        settings = structs.replace(settings, planning=structs.replace(settings.planning, reviewer=reviewer))
    return structs.replace(settings, model=model, assigned=found.assigned)


def with_gates(run: RunSettings, settings: Settings, trust: TrustStatus) -> RunSettings:
    """Return the run's settings with the gates and the set-up of `settings`, which the user may have corrected.

    A run started with `--trust-once` keeps its own, because the folder's configuration no longer applies.
    """
    if run.environment.trusted and not trust.trusted:
        return run
    found = environment_settings(settings, trust)
    environment = structs.replace(found, variables=run.environment.variables)
    return structs.replace(run, gates=gate_settings(settings), environment=environment)


def with_tier(run: RunSettings, settings: Settings) -> RunSettings:
    """Return the run's settings with the tier of `settings`, and with the drafter, critic and reviewer that it has.

    Where the tier chose the models, this one chooses them again.
    """
    tier = settings.tier()
    if run.assigned.sized and run.executors.needs_model(tier.name):
        run = _with_models(run, run_models(settings, tier, notice=ignore_notice))
    limits = with_tier_tokens(run.limits, tier)
    planning = _with_judges(run.planning, settings, tier, run.model, run.executors)
    choice = structs.replace(CHOSEN, fixed_agents=settings.values["agents"].value is not None)
    return structs.replace(run, tier=tier, limits=limits, planning=planning, choice=choice)


def _with_judges(
    planning: PlanningSettings, settings: Settings, tier: Tier, model: ModelSettings, executors: ExecutorSettings
) -> PlanningSettings:
    # Without a planner nothing is judged; a drafter and a critic need a threshold, and only some tiers have a reviewer.
    judged = planning.planner and tier.threshold > 0
    reviewer = chosen_reviewer(settings, tier, model, executors) if planning.planner else None
    return structs.replace(planning, drafter=judged, critic=judged, reviewer=reviewer)


def _tagged_tests(line: str) -> TaggedTests:
    path, *tags = line.split()
    return TaggedTests(path=path, tags=tuple(tag.removeprefix("@") for tag in tags))
