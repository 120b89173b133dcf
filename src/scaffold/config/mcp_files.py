"""The files that name MCP servers: the user's own, and that of a trusted folder."""

import os
from collections.abc import Callable
from pathlib import Path

from scaffold.agent.extensions.setup import PROJECT_FILE, SERVERS_FILE, ServersFile
from scaffold.config.folder_trust import folder_trust
from scaffold.core.errors import UsageError
from scaffold.git.checkouts.worktree_metadata import locate_checkout
from scaffold.host.user_dirs import user_dirs
from scaffold.policy.trust_decision import MAX_BYTES

USER_SCOPE = "user"


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
