"""`diff`: the changes of an action or a run, landed or not."""

import os
import sys

import click

from scaffold.cli.commands.options import json_option, pageable, run_option
from scaffold.cli.render.terminal.style import print_json, print_patch
from scaffold.cli.render.terminal.text_layout import layout_for, print_text
from scaffold.cli.wiring import context_with_run
from scaffold.git.commits import DIFF_OPTIONS, changed_paths
from scaffold.host.process.async_runner import run_async
from scaffold.run.task_list import own_changed_paths
from scaffold.views.changes.shown_range import find_range


@click.command()
@click.argument("target", metavar="[ACTION|RUN]", required=False)
@click.option("--stat", is_flag=True, help="Show the changed files and line counts only.")
@run_option
@json_option
@pageable
def diff(target: str | None, run_name: str | None, *, stat: bool, as_json: bool) -> None:
    """Show the landed changes of ACTION, or all changes of RUN (default: the latest run).

    If ACTION has not landed, show its candidate or the pinned work of its last attempt.
    """
    run_async(_print_diff(target, run_name, stat=stat, as_json=as_json))


async def _print_diff(target: str | None, run_name: str | None, *, stat: bool, as_json: bool) -> None:
    async with context_with_run(run_name, "started" if target else "landed", part=target) as (context, run):
        change = await find_range(context.git, context, run, target)
        if change.note:
            print_text(f"note: {change.note}", err=True)
        patch, paths = b"", tuple[str, ...]()
        if change.base is not None and change.commit is not None:
            columns = layout_for(sys.stdout).drawing_columns
            form = (f"--stat={columns}", "--summary") if stat else ("-p", "--binary")
            # Of an action, a list of tasks in which its landing marked it is left out.
            listed = run.settings.landing.tracked_list if change.action else None
            every = await changed_paths(context.git, change.base, change.commit)
            paths = await own_changed_paths(context.git, listed, change.base, change.commit)
            left_out = [f":(top,exclude,literal){path}" for path in every if path not in paths]
            chosen = ("--", ":(top)", *left_out) if left_out else ()
            # Plumbing: settings such as `diff.noprefix` and `diff.external` change what `git diff` prints.
            asked = ("diff-tree", "-r", *DIFF_OPTIONS, *form, change.base, change.commit, *chosen)
            patch = (await context.git(*asked)).out
    if as_json:
        shape = {
            "action": change.action.key if change.action else None,
            "commit": change.commit,
            "base": change.base,
            "paths": [os.fsencode(path).decode(errors="replace") for path in paths],
            "patch": patch.decode(errors="replace"),
        }
        print_json(shape)
    else:
        print_patch(patch)
