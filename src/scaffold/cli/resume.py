"""`resume`: go on with a run that was interrupted or put down."""

from typing import Any

import click
import msgspec

from scaffold.cli.carry import go_on
from scaffold.cli.control import wake_goal
from scaffold.cli.flags import Flags, flags_of, shared_options
from scaffold.cli.lookup import action_if_any, find_run_besides, goal_if_any
from scaffold.cli.models import usable_model
from scaffold.cli.picture import GOING_ON
from scaffold.cli.quality import tiered
from scaffold.cli.reader import find_run, shown_status
from scaffold.cli.regrounding import settings_now
from scaffold.cli.sandbox import found
from scaffold.cli.settings import load_settings
from scaffold.cli.wiring import open_site
from scaffold.core.errors import UsageProblem
from scaffold.core.model import Goal, Run
from scaffold.core.states import INTERRUPTED, Active, Failed, Paused, Planning, status_of
from scaffold.host.loop import run_async
from scaffold.llm.catalog import cassette_digest
from scaffold.policy.sandbox import Sandbox, require
from scaffold.worker.site import Site


@click.command()
@click.argument("name", metavar="[RUN|GOAL]", required=False)
@click.option("--yes", is_flag=True, help="As with `run`; nothing is asked here anyway.")
@click.option("--trust-once", is_flag=True, help="Let this folder's own configuration count, this time.")
@shared_options
def resume(name: str | None, **options: Any) -> int:
    """Go on with RUN, or with the latest that was interrupted or paused; flags override what it began with.

    A GOAL of the latest run that was paused by itself goes on again, and its run with it.
    """
    return run_async(_resume(name, flags_of(options)))


async def _resume(name: str | None, flags: Flags) -> int:
    site = await open_site()
    try:
        run, goal = (_latest_to_resume(site), None) if name is None else _named(site, name)
        if goal is not None:
            await wake_goal(site, run, goal)
        status = shown_status(run)
        if goal is not None and status in GOING_ON:
            return 0
        if status not in {INTERRUPTED, "paused", "active"}:
            fix = "Give it another chance with `scaffold retry`." if status == "failed" else "Start a new run."
            raise UsageProblem(f"run {run.id} is {status}: there is nothing to go on with", fix)
        require(Sandbox(mode=flags.sandbox or run.settings.sandbox), await found())
        _reconfigure(site, run, flags)
        return await go_on(site, run.id, flags)
    finally:
        site.store.close()


def _named(site: Site, name: str) -> tuple[Run, Goal | None]:
    """Return the run of that name, or the latest run with its goal of that name."""
    latest = find_run(site, None)
    goal = goal_if_any(site, latest, name)
    if goal is None and (action := action_if_any(site, latest, name)) is not None:
        around = site.store.goals.get(action.goal_id)
        fix = f"Resume its goal with `scaffold resume {around.name}`." if around else ""
        raise UsageProblem(f"`{action.key}` is an action, and resume is for runs and goals", fix)
    return (find_run_besides(site, latest, name), None) if goal is None else (latest, goal)


def _latest_to_resume(site: Site) -> Run:
    for run in site.store.runs.all():
        if shown_status(run) == INTERRUPTED or isinstance(run.state, Paused):
            return run
    latest = site.store.runs.latest()
    about = f"the latest, {latest.id}, is {status_of(latest.state)}" if latest else "there is none"
    raise UsageProblem(f"no run was interrupted or paused: {about}", _instead(latest))


def _instead(latest: Run | None) -> str:
    match latest:
        case Run(id=run_id, state=Planning() | Active()):
            return f"Follow it with `scaffold attach {run_id}`."
        case Run(id=run_id, state=Failed()):
            return f"Give it another chance with `scaffold retry {run_id}`."
        case _:
            return 'Start one with `scaffold run "TASK"`.'


def _reconfigure(site: Site, run: Run, flags: Flags) -> None:
    """Store what overrides the run's settings."""
    grounded = settings_now(site, run, trust_once=flags.trust_once)
    settings = msgspec.structs.replace(grounded, **_flagged(site, run, flags))
    if settings != run.settings:
        with site.store.transaction():
            site.store.runs.configure(run.id, settings)
            if (settings.sandbox, settings.yolo) != (run.settings.sandbox, run.settings.yolo):
                site.store.inbox.withdraw(run.id)  # other rules: what still has to be asked is asked anew


def _flagged(site: Site, run: Run, flags: Flags) -> dict[str, object]:
    """Return the settings that the flags override; a cassette that changed since is refused."""
    changes: dict[str, object] = {}
    if flags.model is not None:
        model, digest = usable_model(flags.model)
        changes = {"model": model, "model_hash": digest}
    elif cassette_digest(run.settings.model) != run.settings.model_hash:
        raise UsageProblem(
            f"the cassette of run {run.id} has changed since it began",
            f"Bring the old file back, or choose anew with `scaffold resume {run.id} --model cassette:FILE`.",
        )
    if flags.tier is not None:
        chosen = load_settings(site.repository.root, site.environ, {"tier": flags.tier}, trust_once=flags.trust_once)
        changes |= tiered(chosen, planner=run.settings.planner)
    if flags.agents is not None:
        changes["agents"] = flags.agents
    if flags.budget_usd is not None:
        changes["budget_usd"] = flags.budget_usd
    if flags.sandbox is not None:
        changes["sandbox"] = flags.sandbox
    if flags.yolo:
        changes["yolo"] = True
    return changes
