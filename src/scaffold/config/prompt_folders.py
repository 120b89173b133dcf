"""Where prompts of roles are kept: the project's own, if its folder is trusted, and the user's."""

from collections.abc import Mapping
from pathlib import Path

from scaffold.agent.prompts import Notice, ignore_notice
from scaffold.config.folder_trust import folder_trust
from scaffold.host.user_dirs import user_dirs
from scaffold.policy.trust import TrustStatus

PROMPTS = "prompts"
PROJECT_PROMPTS = f".scaffold/{PROMPTS}"


def prompt_folders(
    start: Path, environ: Mapping[str, str], *, trust_once: bool = False, notice: Notice = ignore_notice
) -> tuple[str, ...]:
    """Return the folders with `ROLE.md` files that count for the folder `start`, absolute, the first wins.

    What is not there is left out; `notice` is told of a project's folder that does not count.
    """
    projects = _projects(folder_trust(start, environ, once=trust_once), notice)
    users = user_dirs(environ).config / PROMPTS
    return tuple(str(folder) for folder in (projects, users) if folder is not None and folder.is_dir())


def _projects(standing: TrustStatus, notice: Notice) -> Path | None:
    """Return the project's folder, None if it does not count: untrusted, or led out of the project by a link."""
    top = standing.folder.top
    folder = top / PROJECT_PROMPTS
    if not folder.is_dir():
        return None
    if not standing.trusted:
        notice(f"{PROJECT_PROMPTS} ignored: {standing.reason}; `scaffold trust` trusts it.")
        return None
    if not folder.resolve().is_relative_to(top.resolve()):
        notice(f"{PROJECT_PROMPTS} ignored: it is a link that leads out of the folder.")
        return None
    return folder
