"""The environment of child processes: an allow-list, so that no key of the user leaks into a command."""

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


NEVER_INHERITED = {"VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP"}
"""These would make a command use another project's code."""


def child_environment(
    environ: Mapping[str, str], extra: Mapping[str, str] | None = None, *, names: Iterable[str] = ()
) -> dict[str, str]:
    """Return a child's environment: the allowed variables and `names` from `environ`, overridden by `extra`.

    Provider keys pass only if named; NEVER_INHERITED and GIT_* never do. Our interpreter's directory is last on PATH,
    so that `python` exists even where none is installed.
    """
    named = {name for name in names if not is_never_inherited(name)}
    allowed = {
        name: value for name, value in environ.items() if name in ALLOWED or name in named or name.startswith("LC_")
    }
    path = allowed.get("PATH") or os.defpath
    return allowed | {"PATH": _with_python(path), "PYTHONDONTWRITEBYTECODE": "1"} | dict(extra or {})


def is_never_inherited(name: str) -> bool:
    """Return True if no child may inherit this variable, because it would redirect the child to another project."""
    return name in NEVER_INHERITED or name.startswith("GIT_")


def agent_variables(agent_id: str) -> dict[str, str]:
    """Return variables that mark what an agent starts, so that e.g. containers of two agents do not collide."""
    safe_id = re.sub("[^a-z0-9_-]", "-", agent_id)  # container names allow nothing else
    return {"SCAFFOLD_AGENT_ID": safe_id, "COMPOSE_PROJECT_NAME": f"ralph_agent_{safe_id}"}


def _with_python(path: str) -> str:
    ours = str(Path(sys.executable).parent)
    return path if ours in path.split(os.pathsep) else f"{path}{os.pathsep}{ours}"
