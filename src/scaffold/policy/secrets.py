"""Files no agent reads, whatever it was allowed: keys, passwords, tokens, and what holds them in memory."""

import re
from fnmatch import fnmatchcase

from scaffold.policy.protected import CREDENTIALS, TEMPLATES, segments

SECRETS: tuple[str, ...] = (
    *CREDENTIALS,
    ".env",
    ".env.*",
    ".envrc",
    "*.key",
    "*.jks",
    "*.keystore",
    "*.kdbx",
    ".git/config",
    ".git/config.worktree",
    ".git/modules/*/config",
    ".config/hub",
    "_netrc",
    ".pgpass",
    ".my.cnf",
    ".vault-token",
    ".password-store",
    ".cargo/credentials*",
    ".gem/credentials",
    ".terraform.d/credentials*",
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".config/google-chrome",
    ".mozilla",
    "library/keychains",
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".psql_history",
    "credentials.json",
    "/etc/shadow*",
    "/etc/gshadow*",
    "/etc/sudoers*",
    "/etc/ssl/private",
    "/run/secrets",
    "/var/run/secrets",
    "/proc/*/environ",
    "/proc/*/mem",
    "/proc/*/task/*/environ",
    "/proc/*/task/*/mem",
    "/proc/kcore",
    "/dev/mem",
    "/dev/kmem",
)
"""Whole segments of a path, here in lower case, meant in any; a folder holds secrets with everything inside it.

Those that begin with `/` are meant from the root.
"""


def _expression(number: int, entry: str) -> str:
    body = re.escape(entry.strip("/")).replace(r"\*", "[^/]*")
    return f"(?P<e{number}>{'^/' if entry.startswith('/') else '(?:^|/)'}{body}(?:/|$))"


_SECRET = re.compile("|".join(_expression(number, entry) for number, entry in enumerate(SECRETS)))

_NAME = re.compile("|".join(re.escape(entry).replace(r"\*", "[^/]*") for entry in SECRETS if "/" not in entry))


def secret_by(path: str) -> str | None:
    """Return the entry of `SECRETS` that `path` falls under, None if it may be read.

    The path may be absolute or relative and is taken as it stands: resolve links and `..` first.
    """
    names = segments(path)
    found = _SECRET.search("/" * path.startswith("/") + "/".join(names))
    if found is None or found.lastgroup is None:
        return None
    if ".ssh" not in names and any(fnmatchcase(names[-1], template) for template in TEMPLATES):
        return None
    return SECRETS[int(found.lastgroup[1:])]


def is_secret_name(name: str) -> bool:
    """Tell whether a file of this name, in plain letters, holds secrets in whatever folder it lies; fast."""
    folded = name.casefold()
    return _NAME.fullmatch(folded) is not None and not any(fnmatchcase(folded, template) for template in TEMPLATES)
