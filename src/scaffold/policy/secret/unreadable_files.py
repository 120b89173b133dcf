"""Files that no agent may read, whatever the rules allow: keys, passwords, tokens, and process memory.

Installed packages are not searched for them: they come from a registry and contain no secrets of the user, but many
certificates.
"""

import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from scaffold.policy.path.protected_files import CREDENTIAL_FILES, ENV_TEMPLATES, normalized_segments

SECRET_FILES: tuple[str, ...] = (
    *CREDENTIAL_FILES,
    *(".env", ".env.*", ".envrc", "*.key", "*.jks", "*.keystore", "*.kdbx"),
    # The address of a remote may contain a login.
    *(".git/config", ".git/config.worktree", ".git/modules/*/config"),
    *(".config/hub", "_netrc", ".pgpass", ".my.cnf", ".vault-token", ".password-store"),
    *(".cargo/credentials*", ".gem/credentials", ".terraform.d/credentials*"),
    *(".claude/.credentials.json", ".codex/auth.json"),
    # Browsers keep the cookies of open sessions.
    *(".config/google-chrome", ".mozilla", "library/keychains"),
    # People type passwords into command lines.
    *(".bash_history", ".zsh_history", ".python_history", ".psql_history", "credentials.json"),
    *("/etc/shadow*", "/etc/gshadow*", "/etc/sudoers*", "/etc/ssl/private", "/run/secrets", "/var/run/secrets"),
    # The environment and the memory of processes contain keys.
    *("/proc/*/environ", "/proc/*/mem", "/proc/*/task/*/environ", "/proc/*/task/*/mem"),
    *("/proc/kcore", "/dev/mem", "/dev/kmem"),
)
"""Matched against whole path segments, ignoring case; a folder covers everything inside it.

Entries that begin with `/` are absolute.
"""

INSTALLED_FOLDERS = frozenset({"node_modules", "site-packages", "dist-packages", "__pycache__", ".git", ".hg", ".svn"})
INSTALLED_MARKS = frozenset({"conda-meta", "pyvenv.cfg"})
"""Entries of folders that hold an installation."""
GO_MODULES = ("pkg", "mod")
MAX_ENTRIES = 200_000
"""The most entries that are searched; the search of a larger folder is incomplete."""
SETTLED_NS = 50_000_000
"""A folder that changed this shortly before it was read may have changed again with the same time."""
PUBLIC, PRIVATE, READ_BYTES = b"-----BEGIN CERTIFICATE-----", b"PRIVATE KEY", 1 << 20


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


def is_secret_name(folder: str, name: str) -> bool:
    """Return whether an entry of a folder is named like a secret, by itself or together with the folder's name."""
    above = folder.rpartition("/")[2]
    if above.startswith(".") and secret_entry(f"{above}/{name}"):
        return True
    return is_secret_file_name(name) if name.isascii() else secret_entry(name) is not None


def is_public_certificate(path: Path) -> bool:
    """Return whether a `.pem` file holds certificates without a private key."""
    if path.suffix.casefold() != ".pem":
        return False
    try:
        with path.open("rb") as file:
            content = file.read(READ_BYTES + 1)
    except OSError:
        return False
    return PUBLIC in content and PRIVATE not in content and len(content) <= READ_BYTES


class SecretScan:
    """The secrets in a folder. A repeated search reads changed folders only."""

    def __init__(self, root: Path, *, most: int = MAX_ENTRIES) -> None:
        """`root` is absolute; `most` limits the number of entries looked at."""
        self._root = root
        self._most = most
        self._known: dict[str, _Listing] = {}
        self.complete = True
        """Whether the last search was complete."""
        self.entries = 0
        """The number of entries in the last search."""

    def paths(self) -> list[Path]:
        """Return the files and folders named like secrets, within the limit; links are not resolved."""
        before, self._known, self.entries, self.complete = self._known, {}, 0, True
        found, left = [], [str(self._root)]
        while left:
            folder = left.pop()
            if self.entries >= self._most:
                self.complete = False
                break
            listing = _read_listing(folder, before.get(folder))
            if listing is None:
                continue
            self._known[folder] = listing
            self.entries += listing.entries
            found += [Path(folder, name) for name in listing.secrets]
            left += [f"{folder}/{name}" for name in listing.folders]
        return found


@lru_cache(maxsize=256)
def secret_scan(root: Path, *, most: int = MAX_ENTRIES) -> SecretScan:
    """Return this process's search in `root`, which remembers earlier readings."""
    return SecretScan(root, most=most)


class _Listing(Struct, frozen=True):
    changed_ns: int
    entries: int
    secrets: tuple[str, ...]
    folders: tuple[str, ...]


def _read_listing(folder: str, before: _Listing | None) -> _Listing | None:
    """Return the folder's listing, `before` if it is unchanged; None if the folder is unreadable or a link."""
    now_ns = time.time_ns()
    try:
        about = os.lstat(folder)
        if before and before.changed_ns == about.st_ctime_ns:
            return before
        if not stat.S_ISDIR(about.st_mode):
            return None
        with os.scandir(folder) as opened:
            entries = list(opened)
    except OSError:
        return None
    settled = about.st_ctime_ns + SETTLED_NS < now_ns
    secrets, folders = _sorted_out(folder, entries)
    return _Listing(about.st_ctime_ns if settled else -1, len(entries), tuple(secrets), tuple(folders))


def _sorted_out(folder: str, entries: list["os.DirEntry[str]"]) -> tuple[list[str], list[str]]:
    """Return the names of the secrets in a folder, and of the folders to search."""
    secrets, folders = [], []
    for entry in entries:
        is_folder = entry.is_dir(follow_symlinks=False)
        # An installed environment is named like a secret by chance (`.env`), and contains packages.
        if is_secret_name(folder, entry.name) and not (
            is_folder and any(os.path.lexists(f"{entry.path}/{mark}") for mark in INSTALLED_MARKS)
        ):
            if is_folder or not is_public_certificate(Path(entry.path)):
                secrets.append(entry.name)
        elif is_folder and not _is_installed(folder, entry):
            folders.append(entry.name)
    return secrets, folders


def _is_installed(folder: str, entry: "os.DirEntry[str]") -> bool:
    if entry.name in INSTALLED_FOLDERS or (folder.rpartition("/")[2], entry.name) == GO_MODULES:
        return True
    return os.path.lexists(f"{entry.path}/conda-meta")


def targets(paths: Sequence[Path], *, within: tuple[Path, ...]) -> Iterator[Path]:
    """Yield each path and, of a link, its target if that is in one of the folders: a link must not hide the system."""
    # Not by `resolve`, here and wherever an agent may have made the link: it raises for one that leads in a circle.
    for path in paths:
        if not path.is_symlink():
            yield path
        elif any((target := Path(os.path.realpath(path))).is_relative_to(folder) for folder in within):
            yield target
