"""The environment that children get: an allow-list, so that no key of the user's leaks into a command."""

import os
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS")
ALLOWED = {
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "TZ", "TMPDIR", "XDG_RUNTIME_DIR"),
    *CERTIFICATES,
    *PROXIES,
    *(name.upper() for name in PROXIES),
}


MISLEADING = {"VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP"}
"""What would have a command use another project's code."""


def child_environment(
    environ: Mapping[str, str], extra: Mapping[str, str] | None = None, *, names: Iterable[str] = ()
) -> dict[str, str]:
    """Return what a child may see of `environ`, also the variables called `names`, and all of `extra`, which wins.

    Keys of providers never pass unless they are named, MISLEADING and GIT_* not even then. The directory of our own
    interpreter stands last on PATH, so that `python` exists on a machine without one.
    """
    named = {name for name in names if not misleading(name)}
    allowed = {
        name: value for name, value in environ.items() if name in ALLOWED or name in named or name.startswith("LC_")
    }
    path = allowed.get("PATH") or os.defpath
    return allowed | {"PATH": _with_python(path), "PYTHONDONTWRITEBYTECODE": "1"} | dict(extra or {})


def misleading(name: str) -> bool:
    """Tell whether no child may inherit a variable of this name, as it would work on something else."""
    return name in MISLEADING or name.startswith("GIT_")


def agent_marks(agent_id: str) -> dict[str, str]:
    """Return the variables by which what an agent starts is told from what others start, e.g. its containers."""
    fit = re.sub("[^a-z0-9_-]", "-", agent_id)  # more is not allowed in names of containers
    return {"SCAFFOLD_AGENT_ID": fit, "COMPOSE_PROJECT_NAME": f"ralph_agent_{fit}"}


def _with_python(path: str) -> str:
    ours = str(Path(sys.executable).parent)
    return path if ours in path.split(os.pathsep) else f"{path}{os.pathsep}{ours}"
