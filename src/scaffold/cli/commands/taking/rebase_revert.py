"""`rebase` and `revert`: change the session branch of a run, with the run's own commits."""

import sys
from collections.abc import Iterator, Mapping

import click
import msgspec

from scaffold.cli.commands.options import json_option, run_option
from scaffold.cli.execution.report_writer import write_end_report
from scaffold.cli.render.terminal.style import print_json
from scaffold.cli.render.terminal.text_layout import Layout, layout_for, print_text
from scaffold.cli.render.terminal.text_table import table_lines
from scaffold.cli.wiring import context_with_run
from scaffold.core.model import Run
from scaffold.core.printable_text import count_of, join_limited
from scaffold.host.process.async_runner import run_async
from scaffold.landing.taking.open_work import OpenKind
from scaffold.landing.taking.rebase import Rebased, name_of
from scaffold.orchestrator.user_control.session_changes import rebase_run, revert_action
from scaffold.views.name_lookup import find_landing_action

MAX_NAMES = 8
MAX_PATHS = 8

OUTCOMES: Mapping[OpenKind, tuple[str, str]] = {
    "candidate": ("waits to land, once it is proven on the new base", "it is merged and proven there, or done again"),
    "continued": ("waited for you, continues on the new base", "it waited for you, and starts over with both changes"),
    "pinned": ("has not landed; the next attempt sees what the last one did", "the next attempt sees both changes"),
    "step": (
        "is done as a step; its compound lands once it is proven on the new base",
        "it is done as a step, and its compound is merged and proven there, or done again",
    ),
}
"""What happens to work that has not landed if it fits the new base, and if it conflicts."""


@click.command()
@click.argument("run_name", metavar="[RUN]", required=False)
@json_option
def rebase(run_name: str | None, *, as_json: bool) -> None:
    """Carry the work of RUN (default: the latest) over to the tip of its base branch, if that has moved on.

    The session branch gets its commits again, on the new base; your branch and your checkout stay as they are. Work
    that has not landed yet, such as a candidate in the merge queue, goes on from the new base. Nothing counts as proven
    until `scaffold resume` has run the checks there. Actions whose changes conflict are done again.
    """
    run_async(_rebase_work(run_name, as_json=as_json))


async def _rebase_work(run_name: str | None, *, as_json: bool) -> None:
    async with context_with_run(run_name, "landed") as (context, run):
        done = await rebase_run(context, run)
        if done is not None:
            await write_end_report(context, run.id)
        if as_json:
            print_json({"run": run.id, "rebased": done is not None, **(msgspec.to_builtins(done) if done else {})})
        elif done is None:
            print_text(f"{run.base_branch} has no commits that {run.session_branch} does not have")
        else:
            click.echo("\n".join(_rebase_lines(run, done, layout_for(sys.stdout))))


def _rebase_lines(run: Run, done: Rebased, layout: Layout) -> Iterator[str]:
    count = count_of(len(done.carried), "commit")
    yield from layout.prose("", f"{run.session_branch} is at {done.commit[:8]} now: {count} on {done.base[:8]}", hang=2)
    rows = [(name_of(each), f"carried over as {each.new[:8]}, to be proven anew") for each in done.carried]
    rows += [(name_of(each), f"in {run.base_branch} already, to be proven anew") for each in done.in_base]
    rows += [(key, "conflicts with the new base, is done again") for key in done.open_again]
    rows += [(key, f"waited to land, and {why}: it is done again") for key, why in done.withdrawn.items()]
    for each in done.open_work:
        fits, if_not = OUTCOMES[each.kind]
        conflict = f"conflicts with the new base in {join_limited(each.conflicts, MAX_PATHS)}: {if_not}"
        rows.append((each.action, conflict if each.conflicts else fits))
    yield from table_lines([("  ", name, what) for name, what in rows], layout)
    yield from layout.prose("  ", f"prove it: scaffold resume {run.id}")


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
    async with context_with_run(run_name, "landed", part=action_name) as (context, run):
        done = await revert_action(context, run, find_landing_action(context, run, action_name))
        await write_end_report(context, run.id)
        if as_json:
            shape = {
                "run": run.id,
                "action": done.action.key,
                "undone": done.undone,
                "commit": done.commit,
                "refuted": list(done.action.effects),
                "stale": [fact.assertion for group in done.stale for fact in group.facts],
            }
            print_json(shape)
            return
        print_text(f"reverted {done.action.key} by {done.commit[:8]} on {run.session_branch}")
        if done.stale:
            checked = join_limited([group.label for group in done.stale], MAX_NAMES)
            print_text(f"  checked again: {checked}")
        print_text(f"  do it again: scaffold resume {run.id}")
