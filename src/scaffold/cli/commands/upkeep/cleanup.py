"""`cleanup`: remove worktrees, folders and refs of runs that no process executes."""

from collections.abc import Sequence

import click

from scaffold.cli.commands.options import json_option
from scaffold.cli.render.live.work_line import WorkLine
from scaffold.cli.render.terminal.style import print_json
from scaffold.cli.render.terminal.text_layout import print_text
from scaffold.cli.wiring import context_if_any
from scaffold.config.run.effective_settings import keep_settings
from scaffold.config.settings import load_settings
from scaffold.core.activity import Activity
from scaffold.core.printable_text import count_of
from scaffold.host.process.async_runner import run_async
from scaffold.orchestrator.upkeep.run_cleanup import CleanupStep, clean_up

dry_run_option = click.option("--dry-run", "dry", is_flag=True, help="Show what would be done, and change nothing.")


@click.command()
@dry_run_option
@json_option
def cleanup(*, dry: bool, as_json: bool) -> None:
    """Remove leftovers of ended and interrupted runs, and what is too old or too large to keep.

    Unlanded work is pinned first; `scaffold salvage` lists it. A run that is executing is not touched. The settings
    `keep.days` and `keep.logs_mb` say for how long logs, reports and patches are kept.
    """
    steps = run_async(_clean_up_runs(dry=dry, quiet=as_json))
    if as_json:
        print_json({"dry_run": dry, "steps": steps})
        return
    for step in steps:
        print_text(f"{_step_verb(step, dry=dry)} {step.kind} {step.name}\n    {step.why}")
    print_text(_summary_line(steps, dry=dry))


async def _clean_up_runs(*, dry: bool, quiet: bool) -> Sequence[CleanupStep]:
    async with context_if_any() as context:
        if context is None:
            return ()
        work = Activity(label="looks for leftovers" if dry else "looks for leftovers and removes them")
        async with WorkLine(context.clock, quiet=quiet).during(work):
            settings = load_settings(context.repository.root, context.environ, {})
            return await clean_up(context, dry=dry, keep=keep_settings(settings))


def _step_verb(step: CleanupStep, *, dry: bool) -> str:
    if step.verdict == "kept":
        return "kept   " if not dry else "keep   "
    return step.verdict.ljust(7) if not dry else {"removed": "remove ", "pinned": "pin    "}[step.verdict]


def _summary_line(steps: Sequence[CleanupStep], *, dry: bool) -> str:
    done = [step for step in steps if step.verdict != "kept"]
    if not done:
        return "nothing to clean up"
    return f"{count_of(len(done), 'item')} {'would be ' if dry else ''}cleaned up; `scaffold salvage` lists pinned work"
