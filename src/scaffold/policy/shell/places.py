"""Which files the words of a command name, and whether they may be read or written."""

import os
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from scaffold.policy.protected import protected_by
from scaffold.policy.secrets import secret_by
from scaffold.policy.shell.script import Word

HARMLESS_SINKS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})
MOST_NAMES = 2_000
LONGEST_PATH = 4_096
"""Characters; no system opens a longer one."""
MOST_PARTS = 50
"""Paths that are looked for in one word."""
_DOTTED = (".env", ".env.local", ".ssh", ".aws", ".gnupg", ".netrc", ".npmrc", ".pypirc", ".git-credentials", ".pgpass")
_PLAIN = ("id_rsa", "id_ed25519", "server.pem", "private.key", "credentials.json", "shadow", "environ")
_BRACES = re.compile(r"[{},]")
_CHOICE = re.compile(r"([^{}]*)\{([^{}]*)\}([^{}]*)")
_ANYTHING = frozenset({"*", "**", "?*", "*?"})


class Entry(Struct, frozen=True):
    """What stands in a folder."""

    name: str
    is_folder: bool = False
    is_link: bool = False


class FileSystem(Protocol):
    """What the disk shows; a decision asks nothing else of it."""

    def real(self, path: str) -> str:
        """Return an absolute path with links and `..` followed as far as it exists."""
        ...

    def entries(self, folder: str) -> tuple[Entry, ...]:
        """Return what stands in a folder, at most `MOST_NAMES`; nothing if there is no such folder."""
        ...


class Disk:
    """The file system of this machine."""

    def real(self, path: str) -> str:
        """Return an absolute path with links and `..` followed as far as it exists."""
        try:
            return os.path.realpath(path)
        except (OSError, ValueError):
            return path

    def entries(self, folder: str) -> tuple[Entry, ...]:
        """Return what stands in a folder, at most `MOST_NAMES`; nothing if there is no such folder."""
        try:
            with os.scandir(folder) as found:
                return tuple(
                    Entry(each.name, is_folder=each.is_dir(follow_symlinks=False), is_link=each.is_symlink())
                    for each, _ in zip(found, range(MOST_NAMES), strict=False)
                )
        except (OSError, ValueError):
            return ()


class NoFiles:
    """A file system with nothing in it: paths are taken as they are written."""

    def real(self, path: str) -> str:
        """Return the path without its `..`."""
        return os.path.normpath(path)

    def entries(self, folder: str) -> tuple[Entry, ...]:  # noqa: ARG002 - there is no folder
        """Return nothing."""
        return ()


class Place(Struct, frozen=True):
    """Where a command runs and what may be touched from there."""

    root: str
    """The workspace, an absolute path."""
    home: str
    files: FileSystem

    def reached(self, text: str, folders: frozenset[str], *, tilde: bool = False) -> tuple[str, ...]:
        """Return every absolute path that `text` may mean in `folders`, as it is written and as it is reached."""
        named = [os.path.join(folder, text) for folder in sorted(folders)]  # noqa: PTH118 - keeps `..`
        starts = [self.home + text[1:]] if tilde else named
        paths = [path for start in starts for path in (os.path.normpath(start), self.files.real(start))]
        return tuple(dict.fromkeys(path.replace("//", "/", 1) if path.startswith("//") else path for path in paths))

    def outside(self, path: str) -> bool:
        """Tell whether an absolute path lies outside the workspace; the whole disk is none."""
        homes = (self.root, self.files.real(self.root))
        return "/" in homes or not any(Path(path).is_relative_to(home) for home in homes)

    def secret(self, word: Word, folders: frozenset[str]) -> str | None:
        """Return the entry of the secrets that the word names or, being a glob, may stand for."""
        for path in self.reached(word.text, folders, tilde=word.tilde):
            if entry := secret_by(path) or (_may_be_secret(path, self.files) if word.glob else None):
                return entry
        return None

    def protected(self, word: Word, folders: frozenset[str]) -> str | None:
        """Return the entry of the protected files that the word names."""
        for path in self.reached(word.text, folders, tilde=word.tilde):
            if entry := protected_by(self.within(path)):
                return entry
        return None

    def within(self, path: str) -> str:
        """Return an absolute path as it is named from the workspace if it lies inside, else as it is."""
        return path if self.outside(path) else os.path.relpath(path, self.root)

    def away(self, word: Word, folders: frozenset[str]) -> str | None:
        """Return the first path outside the workspace that the word may mean; None if all lie inside."""
        return next((path for path in self.reached(word.text, folders, tilde=word.tilde) if self.outside(path)), None)


def parts(word: Word) -> Iterator[Word]:
    """Yield the word and what in it may be a path of its own: after `=`, `@` and `:`, and after a flag's letter.

    Before `:`, too, and between braces that a shell may take apart. Of a URL only `file://` is a path.
    """
    text = word.text
    if "://" in text:
        _, file, path = text.partition("file://")
        yield from (Word(path, sure=word.sure),) if file else ()
        return
    yield word
    for mark in "=@:,":
        for piece in text.split(mark, MOST_PARTS)[1:]:
            if piece:
                yield Word(piece, tilde=piece.startswith(("~/", "~")) and piece[1:2] in {"", "/"}, sure=word.sure)
    before, colon, _ = text.partition(":")
    if colon and before:
        yield Word(before, tilde=before.startswith("~/"), sure=word.sure)
    for piece in () if word.sure else (*_BRACES.split(text, MOST_PARTS), *_chosen(text)):
        if piece:
            yield Word(piece, tilde=piece.startswith("~/"), sure=False)
    if text.startswith("-") and not text.startswith("--") and len(text) > 2:
        yield Word(text[2:], sure=word.sure)


def _chosen(text: str) -> Iterator[str]:
    """Yield what a shell makes of `a{b,c}d`, for one pair of braces."""
    if found := _CHOICE.fullmatch(text):
        before, choices, after = found.groups()
        yield from (before + choice + after for choice in choices.split(",", MOST_PARTS))


def _may_be_secret(path: str, files: FileSystem) -> str | None:
    """Return a secret that the glob `path` may stand for: by its pattern, or by what is there."""
    names = [name for name in path.split("/") if name]
    for at, name in enumerate(names):
        if not set(name) & set("*?["):
            continue
        usual = _DOTTED if name.startswith(".") else () if name in _ANYTHING else _PLAIN
        for each in (*map(Entry, usual), *files.entries("/" + "/".join(names[:at]))):
            hidden = each.name.startswith(".") and not name.startswith(".")
            if hidden or not fnmatchcase(each.name, name):
                continue
            whole = "/" + "/".join((*names[:at], each.name, *names[at + 1 :]))
            if entry := secret_by(whole) or (secret_by(files.real(whole)) if each.is_link else None):
                return entry
    return None
