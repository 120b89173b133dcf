"""The environment that children get: an allow-list, so that no key of the user's leaks into a command."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS")
ALLOWED = {
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "TZ", "TMPDIR", "XDG_RUNTIME_DIR"),
    *CERTIFICATES,
    *PROXIES,
    *(name.upper() for name in PROXIES),
}


def child_environment(environ: Mapping[str, str], extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return what a child may see of `environ`, and all of `extra`, which wins.

    Keys of providers, VIRTUAL_ENV, PYTHONPATH and GIT_* never pass. The directory of our own
    interpreter stands last on PATH, so that `python` exists on a machine without one.
    """
    allowed = {name: value for name, value in environ.items() if name in ALLOWED or name.startswith("LC_")}
    path = allowed.get("PATH") or os.defpath
    return allowed | {"PATH": _with_python(path), "PYTHONDONTWRITEBYTECODE": "1"} | dict(extra or {})


def _with_python(path: str) -> str:
    ours = str(Path(sys.executable).parent)
    return path if ours in path.split(os.pathsep) else f"{path}{os.pathsep}{ours}"
