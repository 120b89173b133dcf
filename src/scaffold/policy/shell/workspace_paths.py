"""Find the files that a command's words name, and check whether agents may read or write them."""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Protocol, Self

from msgspec import Struct

from scaffold.host.user_dirs import user_dirs
from scaffold.policy.path.protected_files import protected_entry
from scaffold.policy.rule.tool_rules import Rule
from scaffold.policy.secret.unreadable_files import secret_entry
from scaffold.policy.shell.parsed_command import Word

HARMLESS_SINKS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})
MAX_ENTRIES = 2_000
MAX_TEXT_CHARS = 65_536
MAX_DIGESTED_BYTES = 1_000_000
MAX_PATH_CHARS = 4_096
"""No system opens a longer path."""
MAX_PATHS_IN_WORD = 50
"""Maximum number of paths searched in one word."""
_DOTTED = (".env", ".env.local", ".ssh", ".aws", ".gnupg", ".netrc", ".npmrc", ".pypirc", ".git-credentials", ".pgpass")
_PLAIN = ("id_rsa", "id_ed25519", "server.pem", "private.key", "credentials.json", "shadow", "environ")
_BRACES = re.compile(r"[{},]")
_CHOICE = re.compile(r"([^{}]*)\{([^{}]*)\}([^{}]*)")
_ANYTHING = frozenset({"*", "?*", "*?"})
_MAGIC = frozenset("*?[")
_STARS = re.compile(r"\*+")
MAX_EXPANDED = 2_000
"""A glob with more possible paths, or in a folder with more than `MAX_ENTRIES` entries, is not followed."""


class DirEntry(Struct, frozen=True):
    """An entry of a folder."""

    name: str
    is_folder: bool = False
    is_link: bool = False


class FileSystem(Protocol):
    """The view of the disk that decisions use."""

    def real(self, path: str) -> str:
        """Resolve links and `..` in the part of an absolute path that exists; return the whole path."""
        ...

    def entries(self, folder: str) -> tuple[DirEntry, ...]:
        """Return the entries of a folder, at most `MAX_ENTRIES`; empty if it is missing."""
        ...

    def text(self, file: str) -> str:
        """Return the first `MAX_TEXT_CHARS` of a file; empty if it is missing or no text file."""
        ...

    def digest(self, file: str) -> str:
        """Return the SHA-256 of a file's content, or for a large one of its start, size and time; empty if missing."""
        ...


class DiskFileSystem:
    """The file system of this machine."""

    def real(self, path: str) -> str:
        """Resolve links and `..` in the part of an absolute path that exists; return the whole path."""
        try:
            return os.path.realpath(path)
        except (OSError, ValueError):
            return path

    def entries(self, folder: str) -> tuple[DirEntry, ...]:
        """Return the entries of a folder, at most `MAX_ENTRIES`; empty if it is missing."""
        try:
            with os.scandir(folder) as found:
                return tuple(
                    DirEntry(each.name, is_folder=each.is_dir(follow_symlinks=False), is_link=each.is_symlink())
                    for each, _ in zip(found, range(MAX_ENTRIES), strict=False)
                )
        except (OSError, ValueError):
            return ()

    def text(self, file: str) -> str:
        """Return the first `MAX_TEXT_CHARS` of a file; empty if it is missing or no text file."""
        try:
            if not Path(file).is_file():
                return ""
            with Path(file).open(encoding="utf-8", errors="replace") as content:
                return content.read(MAX_TEXT_CHARS)
        except (OSError, ValueError):
            return ""

    def digest(self, file: str) -> str:
        """Return the SHA-256 of a file's content, or for a large one of its start, size and time; empty if missing."""
        try:
            if not Path(file).is_file():
                return ""
            with Path(file).open("rb") as content:
                start = content.read(MAX_DIGESTED_BYTES)
                facts = os.fstat(content.fileno())
        except (OSError, ValueError):
            return ""
        rest = f"{facts.st_size} {facts.st_mtime_ns}" if facts.st_size > len(start) else ""
        return hashlib.sha256(start + rest.encode()).hexdigest()


class EmptyFileSystem:
    """A file system without files: paths are used literally."""

    def real(self, path: str) -> str:
        """Return the path without its `..`."""
        return os.path.normpath(path)

    def entries(self, folder: str) -> tuple[DirEntry, ...]:  # noqa: ARG002 - there is no folder
        """Return nothing."""
        return ()

    def text(self, file: str) -> str:  # noqa: ARG002 - there is no file
        """Return nothing."""
        return ""

    def digest(self, file: str) -> str:  # noqa: ARG002 - there is no file
        """Return nothing."""
        return ""


class WorkspacePaths(Struct, frozen=True):
    """The workspace of a command, and checks of the paths it names."""

    root: str
    """The workspace, an absolute path."""
    home: str
    files: FileSystem
    scripts: frozenset[str] = frozenset()
    """Absolute paths of the scripts that hooks run; no agent may write them."""
    ours: tuple[str, ...] = ()
    """Scaffold's own folders: settings, plugins, logins. No agent may write in them, even in its workspace."""

    @classmethod
    def on_disk(cls, root: Path, home: Path, scripts: Iterable[Path] = ()) -> Self:
        """Return the workspace `root` of a user with this home, with the files on disk, links resolved in `scripts`."""
        dirs = user_dirs()
        return cls(
            root=str(root),
            home=str(home),
            files=DiskFileSystem(),
            scripts=frozenset(_names_with_target(scripts)),
            ours=tuple(_names_with_target((dirs.config, dirs.data))),
        )

    def reached(self, text: str, folders: frozenset[str], *, tilde: bool = False) -> tuple[str, ...]:
        """Return every absolute path that `text` may mean in `folders`, as written and with links resolved."""
        # Links come before `..`: `link/..` is the parent of the link's target, not the folder with the link.
        named = [os.path.join(folder, text) for folder in sorted(folders)]  # noqa: PTH118 - keeps `..`
        starts = [self.home + text[1:]] if tilde else named
        paths = [path for start in starts for path in (os.path.normpath(start), self.files.real(start))]
        # POSIX leaves the meaning of two leading slashes to the system, so
        # `normpath` keeps them; Linux takes them for one.
        return tuple(dict.fromkeys(path.replace("//", "/", 1) if path.startswith("//") else path for path in paths))

    def outside(self, path: str) -> bool:
        """Return whether an absolute path is outside the workspace; always True if the workspace is `/`."""
        homes = (self.root, self.files.real(self.root))
        return "/" in homes or not any(Path(path).is_relative_to(home) for home in homes)

    def secret(self, word: Word, folders: frozenset[str]) -> str | None:
        """Return the entry of `SECRET_FILES` that the word names, or may expand to; None if there is none."""
        for path in self.reached(word.text, folders, tilde=word.tilde):
            if entry := secret_entry(path) or (_may_be_secret(path) if word.glob else None):
                return entry
        return next((entry for path in self._expand_glob(word, folders) or () if (entry := secret_entry(path))), None)

    def protected(self, word: Word, folders: frozenset[str]) -> str | None:
        """Return the entry of `PROTECTED_FILES` that the word names; None if there is none."""
        for path in self.reached(word.text, folders, tilde=word.tilde):
            if entry := self.protected_path(self.within(path)):
                return entry
        return None

    def protected_path(self, path: str) -> str | None:
        """Return why no agent may write a path as `within` returns it: an entry of `PROTECTED_FILES`, or its name."""
        if entry := protected_entry(path):
            return entry
        whole = os.path.normpath(os.path.join(self.root, path))  # noqa: PTH118
        if whole in self.scripts:
            return f"a hook runs {path}"
        return next((f"Scaffold's own {each}" for each in self.ours if Path(whole).is_relative_to(each)), None)

    def within(self, path: str) -> str:
        """Return an absolute path relative to the workspace if it is inside, else unchanged."""
        return path if self.outside(path) else os.path.relpath(path, self.root)

    def away(self, word: Word, folders: frozenset[str]) -> str | None:
        """Return the first path outside the workspace that the word may mean; None if all are inside."""
        if away := next(filter(self.outside, self.reached(word.text, folders, tilde=word.tilde)), None):
            return away
        matches = self._expand_glob(word, folders)
        return word.text if matches is None else next(filter(self.outside, matches), None)

    def _expand_glob(self, word: Word, folders: frozenset[str]) -> tuple[str, ...] | None:
        """Return the current matches of a glob, as written and with links resolved; None if there are too many."""
        if not word.glob:
            return ()
        text = word.text[1:] if word.tilde else word.text
        starts = [self.home] if word.tilde else [""] if text.startswith("/") else sorted(folders)
        found: list[str] = []
        for start in starts:
            matches = _glob_matches(start, text, self.files)
            if matches is None or len(found) + len(matches) > MAX_EXPANDED:
                return None
            found += matches
        return tuple(dict.fromkeys(each for path in found for each in (path, self.files.real(path))))


class DecisionContext(Struct, frozen=True, kw_only=True):
    """Where a command would run, the user's rules, and the repository's settings."""

    workspace: WorkspacePaths
    allow: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()
    settings: frozenset[str] = frozenset()
    """Names of the repository's own settings as in `git config --list`, and `hook.NAME` for each hook."""
    reading_allowed: bool = True
    """Whether read-only commands may run without a rule."""


def _names_with_target(paths: Iterable[Path]) -> Iterator[str]:
    return (name for path in paths for name in (str(path), os.path.realpath(path)))


def path_candidates(word: Word) -> Iterator[Word]:
    """Yield the word and the parts of it that may be paths: after `=`, `@`, `:`, `,` and after a flag's letter.

    Also the part before `:`, and the parts of braces in a word that is not `sure`. Of URLs, only `file://` has a path.
    """
    text = word.text
    if "://" in text:
        _, file, path = text.partition("file://")
        yield from (Word(path, sure=word.sure),) if file else ()
        return
    yield word
    for mark in "=@:,":
        for piece in text.split(mark, MAX_PATHS_IN_WORD)[1:]:
            if piece:
                yield Word(piece, tilde=piece.startswith(("~/", "~")) and piece[1:2] in {"", "/"}, sure=word.sure)
    before, colon, _ = text.partition(":")
    if colon and before:
        yield Word(before, tilde=before.startswith("~/"), sure=word.sure)
    for piece in () if word.sure else (*_BRACES.split(text, MAX_PATHS_IN_WORD), *_expand_braces(text)):
        if piece:
            yield Word(piece, tilde=piece.startswith("~/"), sure=False)
    if text.startswith("-") and not text.startswith("--") and len(text) > 2:
        yield Word(text[2:], sure=word.sure)


def _expand_braces(text: str) -> Iterator[str]:
    """Yield the brace expansion of `a{b,c}d`, for one pair of braces."""
    if found := _CHOICE.fullmatch(text):
        before, choices, after = found.groups()
        yield from (before + choice + after for choice in choices.split(",", MAX_PATHS_IN_WORD))


def _glob_matches(start: str, glob: str, files: FileSystem) -> list[str] | None:
    """Return the possible matches of `glob` in the folder `start`; None if there are too many."""
    found = [start.rstrip("/")]
    for name in filter(None, glob.split("/")):
        if not _MAGIC.intersection(name):
            found = [f"{folder}/{name}" for folder in found]
            continue
        pattern, matched = _wider_glob(name), list[str]()
        for folder in found:
            entries = files.entries(folder or "/")
            matched += [f"{folder}/{each.name}" for each in entries if _is_match(each.name, pattern)]
            if len(entries) >= MAX_ENTRIES or len(matched) > MAX_EXPANDED:
                return None
        found = matched
    return found


def _wider_glob(name: str) -> str:
    # Bash reads `[^a]` and `[[:alpha:]]`: a glob without classes matches at least the same names.
    start, end = name.find("["), name.rfind("]")
    if start < 0:
        return _STARS.sub("*", name)
    return _STARS.sub("*", f"{name[:start]}*{name[end + 1 :] if end > start else ''}")


def _is_match(name: str, pattern: str) -> bool:
    # As in a shell, `*` does not match names that begin with a dot.
    return (pattern.startswith(".") or not name.startswith(".")) and fnmatchcase(name, pattern)


def _may_be_secret(path: str) -> str | None:
    """Return the entry of a usual secret that the glob `path` may match, existing or not; None without one."""
    names = [name for name in path.split("/") if name]
    for at, name in enumerate(names):
        if not _MAGIC.intersection(name):
            continue
        pattern = _wider_glob(name)
        for usual in _DOTTED if name.startswith(".") else () if pattern in _ANYTHING else _PLAIN:
            whole = "/" + "/".join((*names[:at], usual, *names[at + 1 :]))
            if _is_match(usual, pattern) and (entry := secret_entry(whole)):
                return entry
    return None
