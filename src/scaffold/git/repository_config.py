"""List the names of a repository's own settings and hooks, submodules included: they decide which programs git runs."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from scaffold.git.client.command_line import Git
from scaffold.git.client.disabled_programs import FileStamp, file_stamp, is_unchanged

MAX_MODULES = 1_000
EMBEDDED = "embedded."
"""Prefix of the path of a repository inside the working tree whose settings git obeys but which are not listed."""


class _CachedNames(Struct, frozen=True):
    names: frozenset[str]
    stamps: Mapping[Path, FileStamp]
    lasting: bool

    @property
    def current(self) -> bool:
        return self.lasting and is_unchanged(self.stamps)


class RepositoryConfig:
    """A cache of setting names by repository; an entry is read again when one of its files changes."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._cache: dict[Path, _CachedNames] = {}

    async def program_settings(self, root: Path) -> frozenset[str]:
        """Return the names of the settings of the repository around `root` and its submodules; `hook.NAME` per hook.

        Empty outside a repository. Raises GitError.
        """
        cached = self._cache.get(root)
        if cached is None or not cached.current:
            cached = self._cache[root] = await _read_names(root, self._environ)
        return cached.names


async def _read_names(root: Path, environ: Mapping[str, str]) -> _CachedNames:
    if not _in_repository(root):
        return _CachedNames(frozenset(), {}, lasting=False)
    git = Git(root, environ=environ)
    listed = await git("config", "--list", "--show-scope", "--show-origin", "--name-only", "-z")
    fields = [os.fsdecode(field) for field in listed.out.split(b"\0")]
    own = [
        (name, root / origin.removeprefix("file:"))
        for scope, origin, name in zip(fields[::3], fields[1::3], fields[2::3], strict=False)
        if scope in {"local", "worktree"}
    ]
    shared = await git("rev-parse", "--git-common-dir", "--git-dir")
    folders = [root / os.fsdecode(line) for line in shared.out.splitlines()]
    hooks = folders[0] / "hooks"
    hook_files = hooks.iterdir() if hooks.is_dir() else ()
    modules = tuple(_submodule_dirs(folders[0] / "modules"))
    inner: list[str] = []
    for config in (folder / "config" for folder in modules):
        if config.is_file():
            inner += (await git("config", "--file", str(config), "--includes", "--list", "--name-only", "-z")).records
    # Relative to git's folder, as the index has them.
    entries = (await git("ls-files", "--stage", "-z", "--", ":/")).records
    links = [entry.partition("\t")[2] for entry in entries if entry.startswith("160000 ")]
    embedded = [EMBEDDED + path for path in links if _is_embedded(root / path, folders[0] / "modules")]
    hook_names = [f"hook.{file.name}" for file in hook_files if not file.name.endswith(".sample")]
    names = frozenset([name for name, _ in own] + inner + embedded + hook_names)
    configs = {folder / name for folder in (*folders, *modules) for name in ("config", "config.worktree")}
    # Missing files are watched as well: their stamp changes once they exist.
    watched = {*(path for _, path in own), *configs, *modules, hooks, folders[0] / "modules", root / ".git"}
    watched |= {folders[-1] / "index", *(root / path / ".git" for path in links)}
    # The stamps would miss changes of included files.
    return _CachedNames(
        names,
        {path: file_stamp(path) for path in watched},
        lasting=not any(name.casefold().startswith(("include.", "includeif.")) for name in names),
    )


def _is_embedded(folder: Path, modules: Path) -> bool:
    """Return whether the folder holds a repository with a git directory outside `modules`, which is not listed."""
    file = folder / ".git"
    if not file.is_file():
        return file.exists()
    named = file.read_text(encoding="utf-8", errors="surrogateescape").removeprefix("gitdir:").strip()
    return not (folder / named).resolve().is_relative_to(modules.resolve())


def _in_repository(root: Path) -> bool:
    """Return whether git would find a repository from `root`, or would take `root` itself for a bare repository."""
    bare = (root / "HEAD").exists() and (root / "objects").exists()
    if not root.is_dir():
        return False
    return bare or any((folder / ".git").exists() for folder in (root, *root.absolute().parents))


def _submodule_dirs(folder: Path) -> Iterator[Path]:
    # The name of a submodule may contain `/`, so the folders between are watched, too.
    pending, seen = [folder], 0
    while pending and seen < MAX_MODULES:
        current, seen = pending.pop(), seen + 1
        if not current.is_dir():
            continue
        yield current
        inner = current / "modules"
        is_module = (current / "HEAD").is_file()
        pending += [inner] if is_module else (each for each in current.iterdir() if each.is_dir())
