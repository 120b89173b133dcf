"""A repository's own settings by name, its submodules' and its hooks': what decides which programs git would run."""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from scaffold.git.command import Git
from scaffold.git.programs import Stamp, stamp

MOST_MODULES = 1_000
_INCLUDES = ("include.", "includeif.")


class _Known(Struct, frozen=True):
    names: frozenset[str]
    stamps: Mapping[Path, Stamp]
    lasting: bool

    @property
    def current(self) -> bool:
        return self.lasting and all(stamp(path) == before for path, before in self.stamps.items())


class RepositorySettings:
    """The settings of repositories, read again when a file they stand in has changed."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._known: dict[Path, _Known] = {}

    async def of(self, root: Path) -> frozenset[str]:
        """Return what `repository_settings` does."""
        known = self._known.get(root)
        if known is None or not known.current:
            known = self._known[root] = await _read(root, self._environ)
        return known.names


async def repository_settings(root: Path, environ: Mapping[str, str]) -> frozenset[str]:
    """Return the names of the settings of the repository that `root` lies in, `hook.NAME` for each of its hooks.

    Those of its submodules are among them; where there is no repository there are none. Raises GitFailed.
    """
    return (await _read(root, environ)).names


async def _read(root: Path, environ: Mapping[str, str]) -> _Known:
    if not _lies_in_a_repository(root):
        return _Known(frozenset(), {}, lasting=False)
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
    modules = tuple(_modules(folders[0] / "modules"))
    inner = [name for folder in modules if (folder / "config").is_file() for name in await _names(git, folder)]
    names = frozenset([name for name, _ in own] + inner + [f"hook.{name}" for name in _hooks(hooks)])
    configs = {folder / name for folder in (*folders, *modules) for name in ("config", "config.worktree")}
    watched = {*(path for _, path in own), *configs, *modules, hooks, folders[0] / "modules", root / ".git"}
    return _Known(names, {path: stamp(path) for path in watched}, lasting=not _includes(names))


async def _names(git: Git, folder: Path) -> list[str]:
    listed = await git("config", "--file", str(folder / "config"), "--includes", "--list", "--name-only", "-z")
    return [os.fsdecode(name) for name in listed.out.split(b"\0") if name]


def _lies_in_a_repository(root: Path) -> bool:
    """Tell whether git would find a repository from `root`, or takes `root` itself for one without a checkout."""
    bare = (root / "HEAD").exists() and (root / "objects").exists()
    if not root.is_dir():
        return False
    return bare or any((folder / ".git").exists() for folder in (root, *root.absolute().parents))


def _modules(folder: Path) -> Iterator[Path]:
    """Yield the git directories of submodules, at any depth, and the folders their names are parted by."""
    waiting, seen = [folder], 0
    while waiting and seen < MOST_MODULES:
        current, seen = waiting.pop(), seen + 1
        if not current.is_dir():
            continue
        yield current
        inner = current / "modules"
        is_module = (current / "HEAD").is_file()
        waiting += [inner] if is_module else (each for each in current.iterdir() if each.is_dir())


def _hooks(folder: Path) -> Iterator[str]:
    files = folder.iterdir() if folder.is_dir() else ()
    return (file.name for file in files if not file.name.endswith(".sample"))


def _includes(names: Iterable[str]) -> bool:
    """Tell whether settings stand in files that may change unseen."""
    return any(name.casefold().startswith(_INCLUDES) for name in names)
