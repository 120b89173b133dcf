"""`stop`, `pause`, `cancel`, `retry`: steering a run from outside."""

import asyncio

import click

from scaffold.cli.desk import find_run
from scaffold.cli.wiring import open_site
from scaffold.core.ids import ActionId, GoalId, Key
from scaffold.core.states import reason_of, status_of
from scaffold.orchestrator.control import put_down, retry_action, retry_goal, retry_run
from scaffold.store.runs import Wish
from scaffold.worker.site import Site

STOP_PATIENCE_S = 30.0
PAUSE_PATIENCE_S = 2.0


@click.command()
@click.argument("run", required=False)
def stop(run: str | None) -> None:
    """Stop RUN (the latest without one) in good order: its work is pinned, `scaffold resume` goes on."""
    asyncio.run(_put_down(run, "stop", STOP_PATIENCE_S))


@click.command()
@click.argument("run", required=False)
def pause(run: str | None) -> None:
    """Start nothing new in RUN (the latest without one); what runs finishes and lands."""
    asyncio.run(_put_down(run, "pause", PAUSE_PATIENCE_S))


@click.command()
@click.argument("run", required=False)
def cancel(run: str | None) -> None:
    """End RUN (the latest without one) for good: what landed stays on its branch, the rest stays pinned."""
    asyncio.run(_put_down(run, "cancel", STOP_PATIENCE_S))


async def _put_down(name: str | None, wish: Wish, patience_s: float) -> None:
    site = await open_site()
    try:
        run = find_run(site, name)
        state = await put_down(site, run, wish, patience_s=patience_s)
        reason = reason_of(state)
        click.echo(f"run {run.id} is {status_of(state)}" + (f": {reason}" if reason else ""))
        if status_of(state) == "paused":
            click.echo(f"  go on with `scaffold resume {run.id}`")
    finally:
        site.store.close()


@click.command()
@click.argument("target", required=False)
@click.option("--run", "run_name", help="The run the action or goal belongs to; the latest without it.")
def retry(target: str | None, run_name: str | None) -> None:
    """Give TARGET - a failed action, goal or run; the latest run without it - another chance."""
    asyncio.run(_retry(target, run_name))


async def _retry(target: str | None, run_name: str | None) -> None:
    site = await open_site()
    try:
        what = _reopen(site, target, run_name)
        click.echo(f"{what} gets another chance\n  go on with `scaffold resume`")
    finally:
        site.store.close()


def _reopen(site: Site, target: str | None, run_name: str | None) -> str:
    """Retry what `target` names, looked for among actions, goals and runs in this order; return what it was."""
    run = find_run(site, run_name)
    store = site.store
    if target is None:
        retry_run(store, run)
        return f"run {run.id}"
    if (action := store.actions.by_key(run.id, Key(target)) or store.actions.get(ActionId(target))) is not None:
        retry_action(store, run, action)
        return f"action {action.key}"
    if (goal := store.goals.by_name(run.id, target) or store.goals.get(GoalId(target))) is not None:
        retry_goal(store, run, goal)
        return f"goal {goal.name}"
    named = find_run(site, target)
    retry_run(store, named)
    return f"run {named.id}"
