"""`salvage`: list unlanded work, and make branches of it."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from scaffold.cli.commands.options import json_option
from scaffold.cli.commands.upkeep.cleanup import dry_run_option
from scaffold.cli.render.layout import layout_for, print_text
from scaffold.cli.render.style import print_json
from scaffold.cli.wiring import context_if_any
from scaffold.core.errors import GitError, UsageError
from scaffold.core.printable_text import count_of
from scaffold.git.command import Git
from scaffold.git.commits import DIFF_OPTIONS
from scaffold.git.repository import open_repository
from scaffold.host.clock import SystemClock
from scaffold.host.process.async_runner import run_async
from scaffold.orchestrator.upkeep.unlanded import UnlandedWork, create_salvage_branch, list_unlanded, select_unlanded
from scaffold.views.text_format import local_time


@click.command()
@click.argument("attempt", required=False)
@click.option("--patch", is_flag=True, help="Print the work as a patch instead of making a branch.")
@dry_run_option
@json_option
def salvage(attempt: str | None, *, patch: bool, dry: bool, as_json: bool) -> None:
    """List unlanded work that is pinned, or make a branch of the work of ATTEMPT.

    No checkout is touched; use the branch with `git switch salvage-ATTEMPT` or `git merge salvage-ATTEMPT`.
    """
    if patch and attempt is None:
        raise UsageError("`--patch` needs an attempt", "Pass one; `scaffold salvage` lists them.")
    run_async(_salvage(attempt, patch=patch, dry=dry, as_json=as_json))


async def _salvage(attempt: str | None, *, patch: bool, dry: bool, as_json: bool) -> None:
    git = (await open_repository(Path.cwd(), environ=os.environ)).git
    async with context_if_any() as context:
        found = await list_unlanded(git, context.store if context else None)
    if attempt is None:
        _list(found, as_json=as_json)
        return
    work = select_unlanded(found, attempt)
    if patch:
        text = await _patch(git, work)
        if as_json:
            print_json({"attempt": _unlanded_json(work), "patch": text.decode(errors="replace")})
        else:
            click.echo(text, nl=False)
        return
    branch = await create_salvage_branch(git, work, dry=dry)
    if as_json:
        print_json({"dry_run": dry, "branch": branch, "attempt": _unlanded_json(work)})
    else:
        print_text(f"{'would create' if dry else 'created'} the branch {branch} at {work.commit[:12]}")
        print_text(f"  merge it with `git merge {branch}`, or read it with `git log -p {branch}`")


def _list(found: Sequence[UnlandedWork], *, as_json: bool) -> None:
    if as_json:
        print_json({"unlanded": [_unlanded_json(work) for work in found]})
        return
    now, layout = SystemClock().now(), layout_for(sys.stdout)
    for work in found:
        when = local_time(work.at, now) if work.at else "not ended"
        head = layout.wrap("", f"{work.attempt}  {work.action or '?'}  run {work.run or '?'}  {when}", hang=4)
        files = layout.cut(f"{count_of(len(work.files), 'file')}: {', '.join(work.files)}", 4)
        click.echo("\n".join([*head, f"    {files}", *layout.prose("    ", work.why)]))
    print_text("make a branch of one with `scaffold salvage ATTEMPT`" if found else "no unlanded work")


def _unlanded_json(work: UnlandedWork) -> dict[str, object]:
    return {
        "attempt": work.attempt,
        "action": work.action,
        "run": work.run,
        "ref": work.ref,
        "commit": work.commit,
        "base": work.base,
        "ended_at": work.at,
        "files": [os.fsencode(path).decode(errors="replace") for path in work.files],
        "why": work.why,
    }


async def _patch(git: Git, work: UnlandedWork) -> bytes:
    if work.base is None:
        raise GitError(
            f"the base of attempt {work.attempt} is unknown", f"Read its work with `git show {work.commit}`."
        )
    return (await git("diff-tree", "-r", "-p", "--binary", *DIFF_OPTIONS, work.base, work.commit)).out
