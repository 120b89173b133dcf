"""The hooks, skills, roles and commands of a session or a run: the project's if it is trusted, and the user's own."""

import os
from pathlib import Path

from msgspec import structs

from scaffold.agent.prompts import Notice
from scaffold.config.settings import Settings
from scaffold.core.extension_set import Extensions
from scaffold.git.repository import Repository
from scaffold.host.startup import lazy_import
from scaffold.host.user_dirs import user_dirs
from scaffold.policy.trust_decision import TrustFile, TrustStatus, is_extension

READ = "scaffold.config.extension_reader:read_extensions"
"""Takes what `find_extensions` does, after the project's files; imported if there is something to read."""
KEEP = "scaffold.config.extension_reader:keep_files"
"""Takes what was found, the trust of its folder, and where to copy the files."""
HOOKS_FILE = "hooks.json"
"""The user's own hooks, in the configuration directory."""
OWN_ENTRIES = (HOOKS_FILE, "skills", "agents", "commands")
CLAUDE_FOLDER = ".claude"


def find_extensions(settings: Settings, trust: TrustStatus | None, *, home: Path, notice: Notice) -> Extensions:
    """Return what applies in a folder; `notice` receives a line about each thing that has no effect.

    `trust` is that of the folder; None without one.
    """
    files = extension_pieces(trust)
    own = (home / CLAUDE_FOLDER, *(user_dirs().config / name for name in OWN_ENTRIES))
    if not files and not any(map(os.path.lexists, own)):
        return Extensions()
    found: Extensions = lazy_import(READ)(files, settings, trust, home=home, notice=notice)
    return found


def run_extensions(
    repository: Repository, settings: Settings, trust: TrustStatus, *, keep: bool, notice: Notice
) -> Extensions:
    """Return what the workers of a run use; with `keep`, the project's files of it are copied next to the store.

    What the user, or an agent, changes in the repository afterwards is not the run's.
    """
    found = find_extensions(settings, trust, home=Path.home(), notice=notice)
    # Workers have no user who could send a message by its name.
    found = structs.replace(found, commands=())
    if not keep or not found.folder:
        return found
    kept: Extensions = lazy_import(KEEP)(found, trust, repository.common_dir / "scaffold" / "extensions")
    return kept


def extension_pieces(trust: TrustStatus | None) -> tuple[TrustFile, ...]:
    """Return the files of a folder that have hooks, skills, roles or commands, trusted or not."""
    return () if trust is None else tuple(piece for piece in trust.folder.pieces if is_extension(piece))
