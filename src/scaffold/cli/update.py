"""`--check-update` and `--update`: ask the installer that put this program here, and let it install what is newer."""

import shlex
import sys
from datetime import datetime, timedelta
from pathlib import Path

import click
import msgspec
from msgspec import Struct

from scaffold.cli.exit_codes import OK
from scaffold.cli.render.terminal.style import is_ci, is_terminal
from scaffold.cli.render.terminal.text_layout import print_text
from scaffold.cli.wiring import dirs
from scaffold.core.errors import UsageError
from scaffold.host.atomic_files import write_atomic
from scaffold.host.installation import (
    Installation,
    find_installation,
    install_newest,
    newer_version,
    other_processes,
)
from scaffold.host.process.async_runner import run_async
from scaffold.host.wall_clock import WallClock

VALID = timedelta(hours=1)
"""For so long an answer of the package index is repeated instead of asking again."""
MAX_PIDS = 5


class LastCheck(Struct, frozen=True):
    """What the package index said last."""

    version: str
    """The version that was installed then."""
    newer: str
    at: datetime


def check_update() -> int:
    """Say whether there is a newer release; return the exit code."""
    installation = _require_updatable()
    if is_ci():
        print_text(f"{installation.version}; in CI nothing is asked for updates")
        return OK
    last = _last_check(dirs().cache / "update.json", installation)
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
        raise UsageError("an update asks for your consent, and there is no terminal", f"Run `{command}` yourself.")
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
    if not click.confirm(f"{newer} takes the place of {installation.version}, by `{command}`. Go on?", err=True):
        print_text("nothing was changed")
        return OK
    run_async(install_newest(installation))
    (dirs().cache / "update.json").unlink(missing_ok=True)
    print_text(f"{newer} is installed")
    return OK


def _require_updatable() -> Installation:
    """Return how the program was installed; UsageError if no installer can update it."""
    installation = find_installation()
    if not installation.origin:
        return installation
    if installation.editable:
        fix = "Update the checkout with `git pull`."
    else:
        fix = "Install the new file or commit in the same way, or a release from a package index."
    raise UsageError(f"{installation.version} was installed from {installation.origin}, not from an index", fix)


def _last_check(file: Path, installation: Installation) -> LastCheck:
    """Return the stored answer while it is valid for what is installed, else ask and store the answer."""
    now = WallClock().now()
    try:
        stored = msgspec.json.decode(file.read_bytes(), type=LastCheck)
    except (OSError, msgspec.MsgspecError):
        stored = None
    if stored is not None and stored.version == installation.version and timedelta() <= now - stored.at < VALID:
        return stored
    asked = LastCheck(installation.version, run_async(newer_version(installation)), now)
    write_atomic(file, msgspec.json.encode(asked))
    return asked
