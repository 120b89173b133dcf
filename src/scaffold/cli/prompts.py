"""Where prompts of roles are kept: the project's own, if its folder is trusted, and the user's."""

from collections.abc import Mapping
from pathlib import Path

from scaffold.agent.prompts import Notice, unnoticed
from scaffold.cli.trusted import trusted_folder
from scaffold.host.dirs import user_dirs
from scaffold.policy.trust import Standing

PROMPTS = "prompts"
PROJECT_PROMPTS = f".scaffold/{PROMPTS}"


def prompt_folders(
    start: Path, environ: Mapping[str, str], *, trust_once: bool = False, notice: Notice = unnoticed
) -> tuple[str, ...]:
    """Return the folders with `ROLE.md` files that count for the folder `start`, absolute, the first wins.

    What is not there is left out; `notice` is told of a project's folder that does not count.
    """
    projects = _projects(trusted_folder(start, environ, once=trust_once), notice)
    users = user_dirs(environ).config / PROMPTS
    return tuple(str(folder) for folder in (projects, users) if folder is not None and folder.is_dir())


def _projects(standing: Standing, notice: Notice) -> Path | None:
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
