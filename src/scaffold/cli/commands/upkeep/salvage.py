"""`salvage`: list unlanded work, and make branches of it."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from scaffold.cli.commands.options import json_option
from scaffold.cli.commands.upkeep.cleanup import dry_run_option
from scaffold.cli.render.terminal.style import print_json
from scaffold.cli.render.terminal.text_layout import layout_for, print_text
from scaffold.cli.wiring import context_if_any
from scaffold.core.errors import GitError, UsageError
from scaffold.core.printable_text import count_of
from scaffold.git.commits import DIFF_OPTIONS
from scaffold.git.repository import open_repository
from scaffold.host.clock import SystemClock
from scaffold.host.process.async_runner import run_async
from scaffold.orchestrator.upkeep.unlanded import (
    ArchivedFiles,
    UnlandedWork,
    create_salvage_branch,
    list_archived,
    list_unlanded,
    select_archived,
    select_unlanded,
)
from scaffold.run.ignored_archive import restore_archive
from scaffold.views.text_format import local_time


@click.command()
@click.argument("attempt", required=False)
@click.option("--patch", is_flag=True, help="Print the work as a patch instead of making a branch.")
@click.option("--ignored", metavar="DIR", help="Copy the kept ignored files of ATTEMPT into the new folder DIR.")
@dry_run_option
@json_option
def salvage(attempt: str | None, *, patch: bool, ignored: str | None, dry: bool, as_json: bool) -> None:
    """List unlanded work that is pinned, or make a branch of the work of ATTEMPT.

    No checkout is touched; use the branch with `git switch salvage-ATTEMPT` or `git merge salvage-ATTEMPT`. Files that
    git ignores are in no branch: `--ignored` copies them.
    """
    if (patch or ignored) and attempt is None:
        name = "--patch" if patch else "--ignored"
        raise UsageError(f"`{name}` needs an attempt", "Pass one; `scaffold salvage` lists them.")
    if patch and ignored:
        raise UsageError("`--patch` and `--ignored` exclude each other", "Call it once with each.")
    run_async(_salvage_work(attempt, patch=patch, ignored=ignored, dry=dry, as_json=as_json))


async def _salvage_work(attempt: str | None, *, patch: bool, ignored: str | None, dry: bool, as_json: bool) -> None:
    repository = await open_repository(Path.cwd(), environ=os.environ)
    git = repository.git
    async with context_if_any() as context:
        store = context.store if context else None
        found, archives = await list_unlanded(git, store), list_archived(repository.common_dir, store)
    if attempt is None:
        _print_list(found, archives, as_json=as_json)
        return
    if ignored is not None:
        _restore_ignored(
            repository.common_dir, select_archived(archives, attempt), Path(ignored), dry=dry, as_json=as_json
        )
        return
    work = select_unlanded(found, attempt)
    if patch:
        if work.base is None:
            fix = f"Read its work with `git show {work.commit}`."
            raise GitError(f"the base of attempt {work.attempt} is unknown", fix)
        text = (await git("diff-tree", "-r", "-p", "--binary", *DIFF_OPTIONS, work.base, work.commit)).out
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
        if any(each.attempt == work.attempt for each in archives):
            print_text(f"  it has ignored files, too: `scaffold salvage {work.attempt} --ignored DIR`")


def _restore_ignored(common_dir: Path, archive: ArchivedFiles, target: Path, *, dry: bool, as_json: bool) -> None:
    if os.path.lexists(target) or not target.absolute().parent.is_dir():
        exists = os.path.lexists(target)
        problem = f"{target} exists" if exists else f"the folder above {target} does not exist"
        raise UsageError(problem, "Name a new folder for the files.")
    if not dry:
        restore_archive(common_dir, archive.attempt, target)
    if as_json:
        print_json({"dry_run": dry, "folder": str(target.absolute()), "ignored": _archive_json(archive)})
    else:
        verb = "would copy" if dry else "copied"
        print_text(f"{verb} {count_of(len(archive.files), 'ignored file')} of {archive.attempt} to {target}")


def _print_list(found: Sequence[UnlandedWork], archives: Sequence[ArchivedFiles], *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "unlanded": [_unlanded_json(work) for work in found],
                "ignored": [_archive_json(archive) for archive in archives],
            }
        )
        return
    now, layout = SystemClock().now(), layout_for(sys.stdout)
    for work in found:
        when = local_time(work.at, now) if work.at else "not ended"
        head = layout.wrap("", f"{work.attempt}  {work.action or '?'}  run {work.run or '?'}  {when}", hang=4)
        files = layout.wrap("    ", layout.shorten(f"{count_of(len(work.files), 'file')}: {', '.join(work.files)}"))
        also = layout.prose("    ", f"{work.also} has commits or staged files that it left behind") if work.also else ()
        click.echo("\n".join([*head, *files, *layout.prose("    ", work.why), *also]))
    print_text("make a branch of one with `scaffold salvage ATTEMPT`" if found else "no unlanded work")
    for archive in archives:
        head = layout.wrap("", f"{archive.attempt}  {archive.action or '?'}  run {archive.run or '?'}", hang=4)
        names = f"{count_of(len(archive.files), 'ignored file')}: {', '.join(archive.files)}"
        click.echo("\n".join([*head, *layout.wrap("    ", layout.shorten(_path_text(names)))]))
    if archives:
        print_text("copy those of one with `scaffold salvage ATTEMPT --ignored DIR`")


def _unlanded_json(work: UnlandedWork) -> dict[str, object]:
    return {
        "attempt": work.attempt,
        "action": work.action,
        "run": work.run,
        "ref": work.ref,
        "commit": work.commit,
        "base": work.base,
        "ended_at": work.at,
        "files": [_path_text(path) for path in work.files],
        "why": work.why,
        "also": work.also,
    }


def _archive_json(archive: ArchivedFiles) -> dict[str, object]:
    return {
        "attempt": archive.attempt,
        "action": archive.action,
        "run": archive.run,
        "landed": archive.landed,
        "files": [_path_text(path) for path in archive.files],
    }


def _path_text(name: str) -> str:
    return os.fsencode(name).decode(errors="replace")
