"""`doctor`: check the machine and the repository, and show how to fix problems."""

import os
import sys
from collections.abc import Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import click

from scaffold.cli.commands.doctor.checks import (
    DoctorCheck,
    check_login,
    check_machine,
    check_repository,
    prune_worktrees,
)
from scaffold.cli.commands.doctor.executor_checks import check_executors
from scaffold.cli.commands.doctor.extension_checks import check_extensions, check_servers
from scaffold.cli.commands.doctor.gate_checks import check_gates
from scaffold.cli.commands.options import json_option
from scaffold.cli.render.live.work_line import WorkLine
from scaffold.cli.render.terminal.style import print_json, status_mark
from scaffold.cli.render.terminal.text_layout import layout_for, print_text
from scaffold.config.settings import load_settings
from scaffold.core.errors import NotInRepository, RepositoryError, ScaffoldError, StoreError
from scaffold.core.model import Activity
from scaffold.core.printable_text import join_limited
from scaffold.core.throttling import ThrottleState, cooldown_left_s, is_unavailable
from scaffold.git.repository import open_repository
from scaffold.host.clock import SystemClock
from scaffold.host.process.async_runner import run_async
from scaffold.host.user_dirs import user_dirs
from scaffold.orchestrator.owner.watch.notification_channels import desktop_program
from scaffold.plan.notification import channels_of
from scaffold.run.trial.temporary_checkout import remove_dead_trials
from scaffold.store.user_store import UserStore, user_database
from scaffold.views.text_format import local_time

INDENT = " " * 7
MAX_CHANNELS = 8
NAME = 14  # columns of the names
LIFTS = "`scaffold doctor --fix` lets the next request ask at once."


@click.command()
@click.option(
    "--fix",
    is_flag=True,
    help="Remove git's records of Scaffold's worktrees whose folders are missing; ask endpoints again that are down.",
)
@click.option("--gates", is_flag=True, help="Run set-up and each gate once, in a sandbox and a temporary worktree.")
@json_option
def doctor(*, fix: bool, gates: bool, as_json: bool) -> int:
    """Check this machine, this repository and its gates, and show how to fix problems.

    Runs none of the repository's code without `--gates`. Exit code 0 if nothing fails; warnings are allowed.
    """

    async def run_checks() -> Sequence[DoctorCheck]:
        # A trial shows each of its commands itself.
        async with WorkLine(SystemClock(), quiet=gates).during(Activity(label="checks this machine and repository")):
            if fix:
                for name in lift_parked():
                    print_text(f"{name} may be asked again", err=True)
            return [
                *await check_machine(os.environ),
                *check_endpoints(),
                *check_notifications(),
                *await check_login(),
                *await check_servers(),
                *check_extensions(),
                *await check_executors(),
                *await _repository_checks(fix=fix, gates=gates),
            ]

    checks = run_async(run_checks())
    healthy = not any(check.status == "fail" for check in checks)
    if as_json:
        print_json({"healthy": healthy, "checks": checks})
    else:
        layout = layout_for(sys.stdout)
        for check in checks:
            head = f"{status_mark(check.status)} {check.status:<4} {check.name:<{NAME}} "
            advice = layout.prose(INDENT, check.fix) if check.fix else []
            click.echo("\n".join([*layout.prose(head, check.message), *advice]))
    return 0 if healthy else 1


async def _repository_checks(*, fix: bool, gates: bool) -> Sequence[DoctorCheck]:
    try:
        repository = await open_repository(Path.cwd(), environ=os.environ)
    except NotInRepository as outside:  # the machine is checked anywhere
        return [DoctorCheck("repository", "warn", "not in a repository", outside.fix)]
    except RepositoryError as unfit:
        return [DoctorCheck("repository", "fail", unfit.what, unfit.fix)]
    if fix:
        for path in await prune_worktrees(repository):
            print_text(f"removed the record of the worktree {path}, whose folder is missing", err=True)
        for place in await remove_dead_trials(repository, user_dirs().cache):
            print_text(f"removed {place.checkout}, which a killed command had left", err=True)
    return [*await check_repository(repository, os.environ), *await check_gates(repository, os.environ, attempt=gates)]


def check_endpoints() -> list[DoctorCheck]:
    """Return a warning for each parked endpoint; empty if there is none."""
    if not user_database(user_dirs().data).exists():
        return []
    try:
        with closing(_open_user_store()) as user:
            parked = _parked_endpoints(user)
    except StoreError as error:
        return [DoctorCheck("user data", "fail", error.what, error.fix)]
    now, warnings = SystemClock().now(), list[DoctorCheck]()
    for name, state in parked.items():
        until = local_time(now + timedelta(seconds=cooldown_left_s(state, now.timestamp())), now)
        why = "does not answer" if is_unavailable(state) else "is rate limited"
        warnings.append(DoctorCheck("endpoint", "warn", f"{name} {why}", f"It is asked again at {until}. {LIFTS}"))
    return warnings


def check_notifications() -> list[DoctorCheck]:
    """Return a check of the channels of the setting `notify`; empty without one. Sends nothing."""
    try:
        settings = load_settings(Path.cwd(), os.environ, {})
    except ScaffoldError:  # said by the check of the settings
        return []
    channels = channels_of(settings.texts("notify") or settings.text("notify") or "")
    if not channels:
        return []
    if any(each.kind == "desktop" for each in channels) and desktop_program(os.environ, Path.cwd()) is None:
        what = "`desktop` reaches nobody: there is no `notify-send` on this machine"
        return [DoctorCheck("notify", "warn", what, "Install libnotify, or set `notify` to another channel.")]
    names = join_limited([each.name for each in channels], MAX_CHANNELS)
    return [DoctorCheck("notify", "ok", f"{names}; `scaffold notify --test` tries {'them' if channels[1:] else 'it'}")]


def lift_parked() -> list[str]:
    """Let requests ask the parked endpoints again, and return their names."""
    if not user_database(user_dirs().data).exists():
        return []
    with closing(_open_user_store()) as user, user.transaction():
        return [name for name in _parked_endpoints(user) if user.endpoints.lift(name)]


def _parked_endpoints(user: UserStore) -> dict[str, ThrottleState]:
    now_s = SystemClock().now().timestamp()
    return {name: state for name, state in user.endpoints.states().items() if cooldown_left_s(state, now_s) > 0.0}


def _open_user_store() -> UserStore:
    return UserStore.open(user_database(user_dirs().data), clock=SystemClock(), create=False)
