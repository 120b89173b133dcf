"""The environment of the programs that we start ourselves: an allow-list, so that no key of the user leaks.

Commands of agents and checks get more; see `policy/secret/command_environment.py`.
"""

import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS")
ALLOWED = {
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "TZ", "TMPDIR", "XDG_RUNTIME_DIR"),
    *CERTIFICATES,
    *PROXIES,
    *(name.upper() for name in PROXIES),
}

NEVER_INHERITED = {"PYTHONHOME", "PYTHONSTARTUP"}
"""These would make a command run other code than in the user's shell, or fail."""
LOADER_PREFIXES = ("LD_", "DYLD_")
LOADER_VARIABLES = ("GLIBC_TUNABLES", "GCONV_PATH", "LOCPATH", "NLSPATH")
"""With these the dynamic loader and the C library load code and data from any folder."""
FIXED_VARIABLES = {"PYTHONDONTWRITEBYTECODE": "1"}
PYTHON_ALIAS = Path(__file__).resolve().with_name("python_alias")
"""The folder of a program `python` that starts `python3`."""


def child_environment(
    environ: Mapping[str, str], extra: Mapping[str, str] | None = None, *, names: Iterable[str] = ()
) -> dict[str, str]:
    """Return a child's environment: the allowed variables and `names` from `environ`, overridden by `extra`.

    Provider keys pass only if named; NEVER_INHERITED and GIT_* never do.
    """
    named = {name for name in names if not is_never_inherited(name)}
    allowed = {
        name: value for name, value in environ.items() if name in ALLOWED or name in named or name.startswith("LC_")
    }
    return allowed | FIXED_VARIABLES | {"PATH": program_path(environ)} | dict(extra or {})


def is_never_inherited(name: str) -> bool:
    """Return True if no child may inherit this variable, because it would redirect the child to another project."""
    return name in NEVER_INHERITED or name.startswith("GIT_")


def program_path(environ: Mapping[str, str]) -> str:
    """Return PATH for the programs of others, where `python` is `python3` if there is no `python`.

    The folder of the virtual environment that Scaffold is installed in is not on it, unless that is activated: its
    programs, such as type checkers and test runners with their plugins, are not those of the user's project.
    """
    return _program_path(environ.get("PATH") or os.defpath, environ.get("VIRTUAL_ENV", ""))


@lru_cache(maxsize=64)
def _program_path(path: str, activated: str) -> str:
    # Kept, as it is asked for with every command: a Python that comes later is found before the alias.
    if sys.prefix != sys.base_prefix and not _is_same_folder(activated, sys.prefix):
        ours = f"{sys.prefix}/bin"
        path = os.pathsep.join(folder for folder in path.split(os.pathsep) if not _is_same_folder(folder, ours))
    if shutil.which("python", path=path) or not shutil.which("python3", path=path):
        return path
    return f"{path}{os.pathsep}{PYTHON_ALIAS}"


def agent_variables(agent_id: str) -> dict[str, str]:
    """Return variables that mark what an agent starts, so that e.g. containers of two agents do not collide."""
    safe_id = re.sub("[^a-z0-9_-]", "-", agent_id)  # container names allow nothing else
    return {"SCAFFOLD_AGENT_ID": safe_id, "COMPOSE_PROJECT_NAME": f"ralph_agent_{safe_id}"}


def loads_code(name: str) -> bool:
    """Return True for a variable that makes any program load code, from a folder that may be an agent's."""
    return name.startswith(LOADER_PREFIXES) or name in LOADER_VARIABLES


def path_outside(environ: Mapping[str, str], folder: Path) -> str:
    """Return PATH for a program that runs outside of any sandbox: without relative folders and what agents may write.

    That is `folder` and the checkouts around it, because an agent may have worked in these, too.
    """
    path = environ.get("PATH") or os.defpath
    folder, home = folder.resolve(), Path.home().resolve()
    # A home, or what is around it, may be a checkout, too; but users install programs there.
    around = [each for each in folder.parents if not home.is_relative_to(each) and os.path.lexists(each / ".git")]
    writable = tuple(os.path.join(each, "") for each in (folder, *around))  # noqa: PTH118 - ends in a slash
    folders = [each for each in path.split(os.pathsep) if each.startswith("/")]
    # Not by `resolve`, which raises for a link that leads in a circle.
    return os.pathsep.join(each for each in folders if not f"{os.path.realpath(each)}/".startswith(writable))


def _is_same_folder(one: str, other: str) -> bool:
    # The system is asked once for each, not for every part of the two paths.
    try:
        return os.path.samefile(one, other)  # noqa: PTH121 - a `Path` would take an empty name for the current folder
    except (OSError, ValueError):  # one is missing, or has a NUL
        return False
