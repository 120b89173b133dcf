"""Hooks, skills, roles, commands and files of MCP servers that apply: a trusted project's, and the user's own."""

import os
from collections.abc import Callable
from pathlib import Path

from msgspec import structs

from scaffold.agent.extensions.setup import PROJECT_FILE, SERVERS_FILE, ServersFile
from scaffold.agent.prompts import Notice
from scaffold.config.folder_trust import CLAUDE_FOLDER, HOOKS_FILE, folder_trust
from scaffold.config.settings import Settings
from scaffold.core.errors import UsageError
from scaffold.core.extension_set import Extensions
from scaffold.git.checkouts.worktree_metadata import locate_checkout
from scaffold.git.repository import Repository
from scaffold.host.startup import importing
from scaffold.host.user_dirs import user_dirs
from scaffold.policy.trust_decision import MAX_BYTES, TrustStatus, is_extension

OWN_ENTRIES = (HOOKS_FILE, "skills", "agents", "commands")
USER_SCOPE = "user"


def find_extensions(settings: Settings, trust: TrustStatus | None, *, home: Path, notice: Notice) -> Extensions:
    """Return the extensions that apply in a folder; `notice` receives a line about each that has no effect.

    `trust` is that of the folder; None without one.
    """
    files = () if trust is None else tuple(piece for piece in trust.folder.pieces if is_extension(piece))
    own = (home / CLAUDE_FOLDER, *(user_dirs().config / name for name in OWN_ENTRIES))
    if not files and not any(map(os.path.lexists, own)):
        return Extensions()
    # Reading loads the parsers of hooks, skills and roles, which most folders do not need.
    with importing():
        from scaffold.config.extension_reader import read_extensions
    return read_extensions(files, settings, trust, home=home, notice=notice)


def run_extensions(
    repository: Repository, settings: Settings, trust: TrustStatus, *, keep: bool, notice: Notice
) -> Extensions:
    """Return the extensions of a run's workers; with `keep`, the project's files are copied next to the store.

    Later changes in the repository, by the user or an agent, do not affect the run.
    """
    found = find_extensions(settings, trust, home=Path.home(), notice=notice)
    # Workers have no user who could send a message by its name.
    found = structs.replace(found, commands=())
    if not keep or not found.folder:
        return found
    with importing():
        from scaffold.config.extension_reader import keep_files
    return keep_files(found, trust, repository.common_dir / "scaffold" / "extensions")


def mcp_files(start: Path, *, once: bool, tell: Callable[[str], object]) -> tuple[ServersFile, ...]:
    """Return the files for work in `start`, the user's first; `tell` receives a line about each that is ignored.

    With `once` the folder is trusted for this command.
    """
    return (*_user_file(tell), *_project_file(start, once=once, tell=tell))


def _user_file(tell: Callable[[str], object]) -> tuple[ServersFile, ...]:
    path = user_dirs().config / SERVERS_FILE
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return ()
    except OSError as error:
        tell(f"{path} is ignored: it cannot be read ({error.strerror})")
        return ()
    if len(content) > MAX_BYTES:
        tell(f"{path} is ignored: it is larger than {MAX_BYTES // 1_000_000} MB")
        return ()
    return (ServersFile(str(path), content, USER_SCOPE),)


def _project_file(start: Path, *, once: bool, tell: Callable[[str], object]) -> tuple[ServersFile, ...]:
    try:
        top = locate_checkout(start).top
        # What is read below costs a look at many files; most folders have none of this name.
        if not os.path.lexists(top / PROJECT_FILE):
            return ()
        trust = folder_trust(start, once=once)
    except (OSError, UsageError):
        return ()
    content = trust.content(PROJECT_FILE)
    if content is not None:
        return (ServersFile(str(top / PROJECT_FILE), content, trust.folder.identity),)
    if any(piece.name == PROJECT_FILE for piece in trust.folder.pieces):
        tell(f"{PROJECT_FILE} ignored: {trust.reason}; `scaffold trust` trusts it.")
    return ()
