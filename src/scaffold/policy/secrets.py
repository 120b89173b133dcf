"""Files no agent reads, whatever it was allowed: keys, passwords, tokens, and what holds them in memory."""

import re
import unicodedata
from fnmatch import fnmatchcase

from scaffold.policy.protected import CREDENTIALS

SECRETS: tuple[str, ...] = (
    *CREDENTIALS,
    ".env",
    ".env.*",
    ".envrc",
    "*.key",
    "*.jks",
    "*.keystore",
    "*.kdbx",
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

TEMPLATES = (".env.example", ".env.sample", ".env.template", ".env.dist", ".env.defaults", "*.example.pem", "*.pub")
"""Names that look like secrets and are none."""

_FORMAT = "Cf"
"""Characters that are not seen, and that some file systems leave out of names."""


def _expression(number: int, entry: str) -> str:
    body = re.escape(entry.strip("/")).replace(r"\*", "[^/]*")
    return f"(?P<e{number}>{'^/' if entry.startswith('/') else '(?:^|/)'}{body}(?:/|$))"


_SECRET = re.compile("|".join(_expression(number, entry) for number, entry in enumerate(SECRETS)))


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


def segments(path: str) -> list[str]:
    """Return the names in a path as a file system may take them that folds case, width and what cannot be seen."""
    folded = path.replace("\\", "/")
    if not path.isascii():
        seen = "".join(char for char in folded if unicodedata.category(char) != _FORMAT)
        folded = unicodedata.normalize("NFKC", seen)
    names = (name.rstrip(". ") or name for name in folded.casefold().split("/"))
    return [name for name in names if name not in {"", "."}]
