"""`revert`: undo the work of an action on the session branch."""

import click

from scaffold.cli.commands.options import json_option, run_option
from scaffold.cli.execution.report_writer import write_end_report
from scaffold.cli.render.terminal.style import print_json
from scaffold.cli.render.terminal.text_layout import print_text
from scaffold.cli.wiring import context_with_run
from scaffold.core.printable_text import join_limited
from scaffold.host.process.async_runner import run_async
from scaffold.landing.taking.revert import Reverted
from scaffold.orchestrator.user_control.session_changes import revert_action
from scaffold.views.name_lookup import find_landing_action

MAX_NAMES = 8


@click.command()
@click.argument("action_name", metavar="ACTION")
@run_option
@json_option
def revert(action_name: str, run_name: str | None, *, as_json: bool) -> None:
    """Undo the commit that ACTION landed, by a new commit on the session branch; no file of yours changes.

    Its facts are refuted and the action is open again; facts that build on it are checked again. The run is paused:
    `scaffold resume` does the action once more. The base branch stays as it is, even if the work was taken to it.
    """
    run_async(_revert_work(action_name, run_name, as_json=as_json))


async def _revert_work(action_name: str, run_name: str | None, *, as_json: bool) -> None:
    async with context_with_run(run_name) as (context, run):
        done = await revert_action(context, run, find_landing_action(context, run, action_name))
        await write_end_report(context, run.id)
        if as_json:
            print_json(_revert_json(run.id, done))
            return
        print_text(f"reverted {done.action.key} by {done.commit[:8]} on {run.session_branch}")
        if done.stale:
            checked = join_limited([group.label for group in done.stale], MAX_NAMES)
            print_text(f"  checked again: {checked}")
        print_text(f"  do it again: scaffold resume {run.id}")


def _revert_json(run_id: str, done: Reverted) -> dict[str, object]:
    return {
        "run": run_id,
        "action": done.action.key,
        "undone": done.undone,
        "commit": done.commit,
        "refuted": list(done.action.effects),
        "stale": [fact.assertion for group in done.stale for fact in group.facts],
    }
