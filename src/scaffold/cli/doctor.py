"""`doctor`: is this machine, and this repository, fit for work; and what mends what is not."""

import os
from collections.abc import Sequence
from pathlib import Path

import click

from scaffold.cli.checkup import Check, check_machine, check_repository, prune_stale
from scaffold.cli.screen import WIDTH, clip, json_option, mark, print_json, wrapped
from scaffold.core.errors import RepositoryUnfit
from scaffold.git.repository import Repository, open_repository
from scaffold.host.loop import run_async

INDENT = " " * 7


@click.command()
@click.option("--fix", is_flag=True, help="Forget worktrees of ours whose folders are gone; nothing else is changed.")
@json_option
def doctor(*, fix: bool, as_json: bool) -> int:
    """Check this machine and this repository, and say how to mend what is missing.

    Exit code 0 if nothing fails; warnings are allowed.
    """
    checks = run_async(_checks(fix=fix))
    healthy = not any(check.status == "fail" for check in checks)
    if as_json:
        print_json({"healthy": healthy, "checks": checks})
    else:
        for check in checks:
            click.echo(f"{mark(check.status)} {check.status:<4} {check.name:<13} {clip(check.message, WIDTH - 21)}")
            for line in wrapped(check.fix, WIDTH - len(INDENT)):
                click.echo(f"{INDENT}{line}")
    return 0 if healthy else 1


async def _checks(*, fix: bool) -> Sequence[Check]:
    machine = await check_machine(os.environ)
    repository = await _repository()
    if isinstance(repository, Check):
        return [*machine, repository]
    if fix:
        for path in await prune_stale(repository, os.environ):
            click.echo(f"forgot the worktree {path}, whose folder is gone", err=True)
    return [*machine, *await check_repository(repository, os.environ)]


async def _repository() -> Repository | Check:
    try:
        return await open_repository(Path.cwd(), environ=os.environ)
    except RepositoryUnfit as unfit:
        status = "warn" if "is not in a git repository" in unfit.what else "fail"
        message = "not in a repository" if status == "warn" else unfit.what
        return Check("repository", "warn" if status == "warn" else "fail", message, unfit.fix)
