"""`doctor`: check the machine and the repository, and show how to fix problems."""

import os
from collections.abc import Sequence
from pathlib import Path

import click

from scaffold.cli.commands.doctor.checks import DoctorCheck, check_machine, check_repository, prune_worktrees
from scaffold.cli.commands.doctor.endpoints import check_endpoints, lift_parked
from scaffold.cli.commands.options import json_option
from scaffold.cli.render.style import print_json, status_mark
from scaffold.core.errors import NotInRepository, RepositoryError
from scaffold.git.repository import Repository, open_repository
from scaffold.host.process.async_runner import run_async
from scaffold.views.text_format import WIDTH, clip, wrap_text

INDENT = " " * 7


@click.command()
@click.option(
    "--fix",
    is_flag=True,
    help="Remove git's records of Scaffold's worktrees whose folders are missing; ask endpoints again that are down.",
)
@json_option
def doctor(*, fix: bool, as_json: bool) -> int:
    """Check this machine and this repository, and show how to fix problems.

    Exit code 0 if nothing fails; warnings are allowed.
    """
    checks = run_async(_checks(fix=fix))
    healthy = not any(check.status == "fail" for check in checks)
    if as_json:
        print_json({"healthy": healthy, "checks": checks})
    else:
        for check in checks:
            click.echo(
                f"{status_mark(check.status)} {check.status:<4} {check.name:<13} {clip(check.message, WIDTH - 21)}"
            )
            for line in wrap_text(check.fix, WIDTH - len(INDENT)):
                click.echo(f"{INDENT}{line}")
    return 0 if healthy else 1


async def _checks(*, fix: bool) -> Sequence[DoctorCheck]:
    if fix:
        for name in lift_parked():
            click.echo(f"{name} may be asked again", err=True)
    machine = [*await check_machine(os.environ), *check_endpoints()]
    repository = await _repository()
    if isinstance(repository, DoctorCheck):
        return [*machine, repository]
    if fix:
        for path in await prune_worktrees(repository):
            click.echo(f"removed the record of the worktree {path}, whose folder is missing", err=True)
    return [*machine, *await check_repository(repository, os.environ)]


async def _repository() -> Repository | DoctorCheck:
    try:
        return await open_repository(Path.cwd(), environ=os.environ)
    except NotInRepository as outside:
        return DoctorCheck("repository", "warn", "not in a repository", outside.fix)
    except RepositoryError as unfit:
        return DoctorCheck("repository", "fail", unfit.what, unfit.fix)
