"""`resume`: continue an interrupted or paused run."""

from typing import Any

import click
import msgspec

from scaffold.agent.model_access import resolve_model
from scaffold.cli.commands.run.control import resume_goal
from scaffold.cli.commands.run.options import flags_of, shared_options
from scaffold.cli.execution.flow import continue_run
from scaffold.cli.wiring import open_context
from scaffold.config.proof import with_tier
from scaffold.config.resume import resume_settings
from scaffold.config.run_flags import RunFlags
from scaffold.config.sandbox import detect_sandbox_level
from scaffold.config.settings import load_settings
from scaffold.core.errors import UsageError
from scaffold.core.model import Goal, Run
from scaffold.core.run_settings import RunSettings, SandboxSettings
from scaffold.core.states import INTERRUPTED, Active, Failed, Paused, Planning, status_of
from scaffold.host.process.async_runner import run_async
from scaffold.llm.model_factory import cassette_digest
from scaffold.orchestrator.owner.open_run import reconfigure_run
from scaffold.policy.sandbox_setup import require_sandbox
from scaffold.run.context import RunContext
from scaffold.views.lookup import action_if_any, find_other_run, goal_if_any
from scaffold.views.run_view import LIVE_STATUSES
from scaffold.views.store_reader import display_status, find_run


@click.command()
@click.argument("name", metavar="[RUN|GOAL]", required=False)
@click.option("--yes", is_flag=True, help="Accepted as in `run`; `resume` asks no question.")
@click.option("--trust-once", is_flag=True, help="Use this folder's own configuration this time.")
@shared_options
def resume(name: str | None, **options: Any) -> int:
    """Continue RUN, or the latest interrupted or paused run; flags override its settings.

    With GOAL, resume a goal of the latest run that you paused, and continue that run.
    """
    return run_async(_resume(name, flags_of(options)))


async def _resume(name: str | None, flags: RunFlags) -> int:
    site = await open_context()
    try:
        run, goal = (_latest_to_resume(site), None) if name is None else _find_target(site, name)
        if goal is not None:
            await resume_goal(site, run, goal)
        status = display_status(run)
        if goal is not None and status in LIVE_STATUSES:
            return 0
        if status not in {INTERRUPTED, "paused", "active"}:
            fix = "Retry it with `scaffold retry`." if status == "failed" else "Start a new run."
            raise UsageError(f"run {run.id} is {status} and cannot be resumed", fix)
        require_sandbox(SandboxSettings(mode=flags.sandbox or run.settings.sandbox.mode), await detect_sandbox_level())
        reconfigure_run(site, run, resumed_settings(site, run, flags))
        return await continue_run(site, run.id, flags)
    finally:
        site.store.close()


def _find_target(site: RunContext, name: str) -> tuple[Run, Goal | None]:
    """Return the run with that name and None, or the latest run and its goal with that name."""
    latest = find_run(site, None)
    goal = goal_if_any(site, latest, name)
    if goal is None and (action := action_if_any(site, latest, name)) is not None:
        around = site.store.goals.get(action.goal_id)
        fix = f"Resume its goal with `scaffold resume {around.name}`." if around else ""
        raise UsageError(f"`{action.key}` is an action; only runs and goals can be resumed", fix)
    return (find_other_run(site, latest, name), None) if goal is None else (latest, goal)


def _latest_to_resume(site: RunContext) -> Run:
    for run in site.store.runs.all():
        if display_status(run) == INTERRUPTED or isinstance(run.state, Paused):
            return run
    latest = site.store.runs.latest()
    about = f"the latest, {latest.id}, is {status_of(latest.state)}" if latest else "there is no run"
    raise UsageError(f"no run is interrupted or paused: {about}", _fix_for(latest))


def _fix_for(latest: Run | None) -> str:
    match latest:
        case Run(id=run_id, state=Planning() | Active()):
            return f"Follow it with `scaffold attach {run_id}`."
        case Run(id=run_id, state=Failed()):
            return f"Retry it with `scaffold retry {run_id}`."
        case _:
            return 'Start one with `scaffold run "TASK"`.'


def resumed_settings(site: RunContext, run: Run, flags: RunFlags) -> RunSettings:
    """Return the settings that the run continues with: those stored with it, overridden by the flags."""
    return _with_flags(site, run, resume_settings(site, run, trust_once=flags.trust_once), flags)


def _with_flags(site: RunContext, run: Run, settings: RunSettings, flags: RunFlags) -> RunSettings:
    """Return the settings with what the flags override; raises UsageError if the run's cassette has changed."""
    replace = msgspec.structs.replace
    if flags.model is not None:
        model, digest = resolve_model(flags.model)
        settings = replace(settings, model=replace(settings.model, name=model, cassette_hash=digest))
    elif cassette_digest(settings.model.name) != settings.model.cassette_hash:
        raise UsageError(
            f"the cassette of run {run.id} has changed since the run started",
            f"Restore the file, or choose another with `scaffold resume {run.id} --model cassette:FILE`.",
        )
    if flags.tier is not None:
        chosen = load_settings(site.repository.root, site.environ, {"tier": flags.tier}, trust_once=flags.trust_once)
        settings = with_tier(settings, chosen)
    if flags.agents is not None:
        settings = replace(settings, tier=replace(settings.tier, agents=flags.agents))
    if flags.budget_usd is not None:
        settings = replace(settings, limits=replace(settings.limits, budget_usd=flags.budget_usd))
    if flags.sandbox is not None:
        settings = replace(settings, sandbox=replace(settings.sandbox, mode=flags.sandbox))
    if flags.yolo:
        settings = replace(settings, permissions=replace(settings.permissions, yolo=True))
    return settings
