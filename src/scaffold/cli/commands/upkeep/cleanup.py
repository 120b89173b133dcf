"""`cleanup` and `purge`: remove what runs left behind, or all of Scaffold's state."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from scaffold.cli.commands.options import json_option
from scaffold.cli.render.live.work_line import WorkLine
from scaffold.cli.render.terminal.style import is_terminal, print_json
from scaffold.cli.render.terminal.text_layout import confirm, print_text
from scaffold.cli.wiring import context_if_any
from scaffold.config.run.effective_settings import keep_settings
from scaffold.config.settings import load_settings
from scaffold.core.errors import UsageError
from scaffold.core.model import Activity
from scaffold.core.printable_text import count_of
from scaffold.git.repository import open_repository
from scaffold.host.clock import SystemClock
from scaffold.host.process.async_runner import run_async
from scaffold.host.user_dirs import user_dirs
from scaffold.orchestrator.upkeep.run_cleanup import CleanupStep, clean_up
from scaffold.orchestrator.upkeep.state_removal import Purge, PurgeItem

UNITS = ("B", "kB", "MB", "GB", "TB")  # of 1000, as disks are sold
QUESTION = "Remove every item marked `remove`?"
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
    will = {"kept": "keep", "removed": "remove", "pinned": "pin"}
    for step in steps:
        verb = will[step.verdict] if dry else step.verdict
        print_text(f"{verb:<7} {step.kind} {step.name}\n    {step.why}")
    if done := [step for step in steps if step.verdict != "kept"]:
        would = "would be " if dry else ""
        print_text(f"{count_of(len(done), 'item')} {would}cleaned up; `scaffold salvage` lists pinned work")
    else:
        print_text("nothing to clean up")


async def _clean_up_runs(*, dry: bool, quiet: bool) -> Sequence[CleanupStep]:
    async with context_if_any() as context:
        if context is None:
            return ()
        work = Activity(label="looks for leftovers" if dry else "looks for leftovers and removes them")
        async with WorkLine(context.clock, quiet=quiet).during(work):
            settings = load_settings(context.repository.root, context.environ, {})
            return await clean_up(context, dry=dry, keep=keep_settings(settings))


@click.command()
@click.option("--repo", "scope", flag_value="repo", default="repo", help="This repository's state (the default).")
@click.option("--all", "scope", flag_value="all", help="Also remove your settings, memory and cached files.")
@click.option("--unlanded", is_flag=True, help="Also remove unlanded work and ignored files, for good.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@dry_run_option
@json_option
def purge(scope: str, *, unlanded: bool, yes: bool, dry: bool, as_json: bool) -> None:
    """Remove Scaffold's state of this repository: database, refs and cached worktrees.

    Session branches stay. Unlanded work and ignored files of agents stay, too, unless `--unlanded` is given.
    """
    items, gone = run_async(_purge_state(everything=scope == "all", unlanded=unlanded, yes=yes, dry=dry, quiet=as_json))
    if as_json:
        print_json({"dry_run": dry, "removed": gone, "items": items})
    elif gone:
        count = sum(item.removed for item in items)
        click.echo(f"removed {count_of(count, 'item')}")
    elif not any(item.removed for item in items):
        click.echo("nothing to remove")


async def _purge_state(
    *, everything: bool, unlanded: bool, yes: bool, dry: bool, quiet: bool
) -> tuple[Sequence[PurgeItem], bool]:
    repository = await open_repository(Path.cwd(), environ=os.environ)
    async with context_if_any() as context:
        job = Purge(repository=repository, dirs=user_dirs(), context=context, unlanded=unlanded, everything=everything)
        async with WorkLine(SystemClock(), quiet=quiet).during(Activity(label="looks for what to remove")):
            items = await job.plan_purge()
        if not quiet:
            for item in items:
                size = f" ({_format_bytes(item.size_bytes)})" if item.size_bytes is not None else ""
                print_text(f"{'remove' if item.removed else 'keep  '} {item.kind} {item.name}{size}\n    {item.why}")
        if dry or not any(item.removed for item in items):
            return items, False
        if not yes and not is_terminal(sys.stdin):
            fix = "Run it at a terminal or with `--yes`; `--dry-run` only shows the items."
            raise UsageError("purge needs your confirmation", fix)
        if not yes and not confirm(QUESTION):
            return items, False
        async with WorkLine(SystemClock(), quiet=quiet).during(Activity(label="removes it")):
            return await job.execute(), True


def _format_bytes(size_bytes: int) -> str:
    amount, unit = float(size_bytes), 0
    while amount >= 1000 and unit < len(UNITS) - 1:
        amount, unit = amount / 1000, unit + 1
    return f"{amount:.{1 if unit else 0}f} {UNITS[unit]}"
