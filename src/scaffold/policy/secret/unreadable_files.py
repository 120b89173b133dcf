"""Files that no agent may read, whatever the rules allow: keys, passwords, tokens, and process memory."""

import re
from fnmatch import fnmatchcase

from scaffold.policy.path.protected_files import CREDENTIAL_FILES, ENV_TEMPLATES, normalized_segments

SECRET_FILES: tuple[str, ...] = (
    *CREDENTIAL_FILES,
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
"""Matched against whole path segments, ignoring case; a folder covers everything inside it.

Entries that begin with `/` are absolute.
"""


def _entry_regex(number: int, entry: str) -> str:
    body = re.escape(entry.strip("/")).replace(r"\*", "[^/]*")
    return f"(?P<e{number}>{'^/' if entry.startswith('/') else '(?:^|/)'}{body}(?:/|$))"


_SECRET = re.compile("|".join(_entry_regex(number, entry) for number, entry in enumerate(SECRET_FILES)))

_NAME = re.compile("|".join(re.escape(entry).replace(r"\*", "[^/]*") for entry in SECRET_FILES if "/" not in entry))


def secret_entry(path: str) -> str | None:
    """Return the entry of `SECRET_FILES` that covers `path`; None if it may be read.

    The path may be absolute or relative and is used literally: resolve links and `..` first.
    """
    names = normalized_segments(path)
    found = _SECRET.search("/" * path.startswith("/") + "/".join(names))
    if found is None or found.lastgroup is None:
        return None
    if ".ssh" not in names and any(fnmatchcase(names[-1], template) for template in ENV_TEMPLATES):
        return None
    return SECRET_FILES[int(found.lastgroup[1:])]


def is_secret_file_name(name: str) -> bool:
    """Return whether a file with this ASCII name contains secrets in any folder; faster than `secret_entry`."""
    folded = name.casefold()
    return _NAME.fullmatch(folded) is not None and not any(fnmatchcase(folded, template) for template in ENV_TEMPLATES)
