"""`--check-update` and `--update`: find and install a newer release with the installer of this one."""

import shlex
import sys
from datetime import datetime, timedelta

import msgspec
from msgspec import Struct

from scaffold.cli.exit_codes import OK
from scaffold.cli.render.terminal.style import is_ci, is_terminal
from scaffold.cli.render.terminal.text_layout import confirm, print_text
from scaffold.core.errors import UsageError
from scaffold.host.atomic_files import write_atomic
from scaffold.host.installation import Installation, find_installation, install_newest, newer_version, other_processes
from scaffold.host.process.async_runner import run_async
from scaffold.host.user_dirs import user_dirs
from scaffold.host.wall_clock import WallClock

VALID = timedelta(hours=1)  # the package index is asked at most this often
MAX_PIDS = 5


class LastCheck(Struct, frozen=True):
    """The latest answer of the package index."""

    version: str
    """The version that was installed then."""
    newer: str
    at: datetime


def check_update() -> int:
    """Say whether there is a newer release; return the exit code."""
    installation = _require_updatable()
    if is_ci():
        print_text(f"{installation.version}; updates are not checked in CI")
        return OK
    file, now = user_dirs().cache / "update.json", WallClock().now()
    try:
        last = msgspec.json.decode(file.read_bytes(), type=LastCheck)
    except (OSError, msgspec.MsgspecError):
        last = None
    # Stored per installed version: after an update the old answer is wrong.
    if last is None or last.version != installation.version or not timedelta() <= now - last.at < VALID:
        last = LastCheck(installation.version, run_async(newer_version(installation)), now)
        write_atomic(file, msgspec.json.encode(last))
    if not last.newer:
        print_text(f"{installation.version} is the newest release")
        return OK
    print_text(f"{last.newer} is available, {installation.version} is installed; `ralph --update` installs it")
    return OK


def update() -> int:
    """Install the newest release after the user has agreed; return the exit code."""
    installation = _require_updatable()
    command = shlex.join(installation.update_command)
    if is_ci() or not is_terminal(sys.stdin, sys.stderr):
        raise UsageError("an update needs your confirmation, and there is no terminal", f"Run `{command}` yourself.")
    newer = run_async(newer_version(installation))
    if not newer:
        print_text(f"{installation.version} is the newest release")
        return OK
    if pids := other_processes():
        named = ", ".join(map(str, pids[:MAX_PIDS])) + (", ..." if len(pids) > MAX_PIDS else "")
        raise UsageError(
            f"other processes run from this installation and would find its modules replaced: {named}",
            "Stop runs with `scaffold stop` and end chats first; a stopped run is resumed with the new version.",
        )
    if not confirm(f"Replace {installation.version} with {newer}, by `{command}`?"):
        print_text("nothing was changed")
        return OK
    run_async(install_newest(installation))
    (user_dirs().cache / "update.json").unlink(missing_ok=True)
    print_text(f"{newer} is installed")
    return OK


def _require_updatable() -> Installation:
    # An editable install or one from a file has no index to ask.
    installation = find_installation()
    if not installation.origin:
        return installation
    if installation.editable:
        fix = "Update the checkout with `git pull`."
    else:
        fix = "Install the new file or commit in the same way, or a release from a package index."
    raise UsageError(f"{installation.version} was installed from {installation.origin}, not from an index", fix)
