"""The files that tell what a repository is made of: a listing and their contents, wherever they come from."""

import json
import os
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

from scaffold.core.ids import Commit
from scaffold.git.command import Git
from scaffold.git.commit import all_contents, listed_files, listed_paths, sizes

MANIFESTS = ("go.mod", "go.work", "package.json", "Cargo.toml", "pyproject.toml", "setup.py", "setup.cfg")
TELLING = frozenset({*MANIFESTS, "tox.ini", "pytest.ini", "pnpm-workspace.yaml"})
"""Names of files whose contents count."""
UNSEEN = frozenset({".git", "node_modules", ".venv", "venv", "target", "vendor", "__pycache__", "testdata", "fixtures"})
"""Folders in which nothing is looked for: what is in them is somebody else's."""
LARGEST_BYTES = 1_000_000
MOST_TEST_FILES = 200
MOST_FILES = 50_000


class Listing:
    """Paths with `/` from the top of a repository, or from a folder in it, and what is in them."""

    def __init__(self, paths: Collection[str], read: Callable[[str], bytes | None]) -> None:
        self.paths = frozenset(paths)
        self._read = read

    def at(self, folder: str) -> "Listing":
        """Return what is below a folder, as seen from there."""
        if not folder:
            return self
        paths = [path.removeprefix(f"{folder}/") for path in self.paths if path.startswith(f"{folder}/")]
        return Listing(paths, lambda path: self._read(f"{folder}/{path}"))

    def has(self, *names: str) -> bool:
        """Tell whether one of the files is there."""
        return not self.paths.isdisjoint(names)

    def text(self, path: str) -> str:
        """Return what is in a file; empty if it is not there or cannot be read."""
        return (self._read(path) or b"").decode(errors="replace") if path in self.paths else ""

    def toml(self, path: str) -> Mapping[str, Any]:
        """Return the table in a TOML file; an empty one if it cannot be read."""
        try:
            return tomllib.loads(self.text(path))
        except (ValueError, RecursionError):
            return {}

    def json(self, path: str) -> Mapping[str, Any]:
        """Return the object in a JSON file; an empty one if it cannot be read."""
        try:
            return table(json.loads(self.text(path)))
        except (ValueError, RecursionError):
            return {}

    def folders_of(self, *names: str) -> tuple[str, ...]:
        """Return the folders in which a file of such a name is, the outermost first."""
        found = {str(PurePosixPath(path).parent) for path in self.paths if PurePosixPath(path).name in names}
        return tuple(sorted((folder for folder in found if _seen(folder)), key=lambda each: (each.count("/"), each)))


def table(value: object) -> Mapping[str, Any]:
    """Return a table; an empty one instead of anything else."""
    return value if isinstance(value, dict) else {}


def texts(value: object) -> tuple[str, ...]:
    """Return the texts of a list; none of anything else."""
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()


def is_python_test(path: str) -> bool:
    """Tell whether a path is named as files of tests are."""
    name = PurePosixPath(path).name
    return (name.startswith("test") or name.endswith("_test.py")) and name.endswith(".py") and _seen(path)


async def listing_at(git: Git, commit: Commit) -> Listing:
    """Return the files of a commit; contents of those alone that tell something, and of no huge ones."""
    files = await listed_files(git, commit)
    wanted = [*filter(_tells, files), *islice(filter(_may_test, files), MOST_TEST_FILES)]
    contents = await _contents(git, {path: files[path] for path in wanted})
    return Listing(await listed_paths(git, commit), contents.get)


def listing_in(folder: Path) -> Listing:
    """Return the files below a folder."""
    return Listing(tuple(_walked(folder)), lambda path: _file(folder / path))


def _seen(path: str) -> bool:
    return UNSEEN.isdisjoint(PurePosixPath(path).parts)


def _may_test(path: str) -> bool:
    return is_python_test(path) or (path.endswith(".rs") and _seen(path))


def _tells(path: str) -> bool:
    return PurePosixPath(path).name in TELLING and _seen(path)


async def _contents(git: Git, blobs: Mapping[str, str]) -> Mapping[str, bytes]:
    """Return what is in the files, by path; nothing for those that are too large."""
    told = zip(blobs, await sizes(git, tuple(blobs.values())), strict=True)
    read = [path for path, size in told if size is not None and size <= LARGEST_BYTES]
    found = await all_contents(git, [blobs[path] for path in read])
    return {path: content for path, content in zip(read, found, strict=True) if content is not None}


def _walked(folder: Path) -> Iterator[str]:
    seen = 0
    for at, folders, files in os.walk(folder):
        folders[:] = sorted(each for each in folders if each not in UNSEEN)
        for name in files:
            seen += 1
            if seen > MOST_FILES:
                return
            yield (Path(at) / name).relative_to(folder).as_posix()


def _file(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            return file.read(LARGEST_BYTES)
    except OSError:
        return None
