"""`trust`: show what a folder's own configuration does, trust it, or revoke the trust."""

import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import click
from msgspec import Struct

from scaffold.agent.model_access import open_user_store
from scaffold.cli.commands.options import json_option
from scaffold.cli.commands.setup.state_adoption import adopt_state, confirmed
from scaffold.cli.exit_codes import FAILED, OK
from scaffold.cli.render.terminal.style import print_json
from scaffold.cli.render.terminal.text_layout import print_text
from scaffold.config.folder_trust import folder_trust, read_folder, require_readable, trust_folder
from scaffold.config.settings import load_settings
from scaffold.config.trust_effects import TrustFileEffect, trust_effects
from scaffold.core.errors import UsageError
from scaffold.core.printable_text import printable
from scaffold.policy.trust_decision import FolderConfig, TrustState, TrustStatus

STATUS_TEXT = {"trusted": "is trusted", "changed": "is no longer trusted", "unknown": "is not trusted"}


class TrustReport(Struct, frozen=True):
    """A folder's trust status and the effects of its files, as printed with `--json`."""

    folder: str
    identity: str
    fingerprint: str
    state: TrustState
    differences: tuple[str, ...]
    files: tuple[TrustFileEffect, ...]


@click.command()
@click.argument("folder", metavar="[DIR]", type=click.Path(path_type=Path), default=Path())
@click.option("--show", is_flag=True, help="Change nothing: print the trust status and what would take effect.")
@click.option("--revoke", is_flag=True, help="Revoke all trust in this repository.")
@click.option("--state", is_flag=True, help="Adopt the state of runs and memories that came with the repository.")
@click.option("--yes", "agreed", is_flag=True, help="Do not ask; required without a terminal and with --json.")
@json_option
def trust(folder: Path, *, show: bool, revoke: bool, state: bool, agreed: bool, as_json: bool) -> int:
    """Trust the configuration that DIR, or the repository that contains it, brings along: settings, servers, hooks.

    The command shows all of it first and asks; without a terminal, and with --json, pass --yes. Trust covers all
    worktrees of the repository until one of the files changes; then they are ignored until you trust the change. You
    can work in a folder that you do not trust: only its own configuration is ignored.

    With --state, it is about the runs, memories and answers in the repository's database instead. One that someone else
    made, or that you copied, is only shown until you adopt it.
    """
    if revoke and (show or state):
        raise UsageError(f"{'--show' if show else '--state'} and --revoke cannot be combined", "Pass one of them.")
    if state:
        return adopt_state(folder, show=show, agreed=agreed, as_json=as_json)
    if revoke:
        return _revoke_trust(read_folder(folder), as_json=as_json)
    before = folder_trust(folder)
    found = trust_effects(before.folder, load_settings(None, os.environ, {}).values)
    if not as_json:
        print_text("\n".join(_trust_lines(before, found)))
    if show:
        return _print_result(before, found, as_json=as_json)
    # What cannot be shown cannot be reviewed, so it cannot be trusted.
    require_readable(before.folder)
    if problem := next((effect.problem for effect in found if effect.problem), ""):
        what = f"this folder cannot be trusted as it is: {problem.rstrip('.')}"
        raise UsageError(what, "Fix the file, then repeat the command.")
    asking = not agreed and not before.trusted
    if asking and not confirmed("trusting this folder", "Trust it?", as_json=as_json):
        return FAILED
    # What was shown is trusted: the files may have changed while the user was reading.
    trust_folder(before.folder)
    return _print_result(TrustStatus(before.folder, "trusted"), found, as_json=as_json, done=not before.trusted)


def _revoke_trust(folder: FolderConfig, *, as_json: bool) -> int:
    with closing(open_user_store()) as store, store.transaction(durable=True):
        agreements = store.trust.revoke(folder.identity)
    if as_json:
        print_json({"folder": str(folder.top), "identity": folder.identity, "revoked": agreements})
    else:
        outcome = "is no longer trusted" if agreements else "was not trusted"
        print_text(f"{folder.top} {outcome}")
    return OK


def _print_result(status: TrustStatus, found: tuple[TrustFileEffect, ...], *, as_json: bool, done: bool = False) -> int:
    folder = status.folder
    if as_json:
        where = printable(str(folder.top))
        print_json(
            TrustReport(where, folder.identity, folder.fingerprint, status.state, status.differences, tuple(found))
        )
    elif done:
        print_text(f"{folder.top} is trusted now; `scaffold trust --revoke` revokes it")
    return OK


def _trust_lines(status: TrustStatus, found: Sequence[TrustFileEffect]) -> Sequence[str]:
    lines = [f"{status.folder.top} {STATUS_TEXT[status.state]}"]
    lines += [f"  {difference}" for difference in status.differences]
    if status.problem:
        lines.append(f"  your earlier decisions cannot be read: {status.problem}")
    if not found:
        lines.append("It has no configuration of its own.")
    for effect in found:
        lines += ["", f"{effect.path} - {effect.what}"]
        lines += [f"  {line}" for line in effect.does or ((effect.problem,) if effect.problem else ("sets nothing",))]
    return lines
