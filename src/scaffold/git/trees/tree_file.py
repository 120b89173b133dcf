"""Read single files of a tree, and write changed trees without a work tree: directly or through a private index."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from scaffold.core.ids import Commit, TreeId
from scaffold.git.client.command_line import Git
from scaffold.git.trees.merge import REGULAR_MODES

Attributes = Mapping[str, str]
"""The values of a path's attributes by name, as git writes them: `set`, `unset`, `unspecified`, or a text."""
MERGE, FILTER = "merge", "filter"


class NewFile(Struct, frozen=True):
    """A file to write: its mode in octal, and its bytes."""

    mode: str
    data: bytes


class PrivateIndex:
    """An index that only this process uses."""

    def __init__(self, git: Git, index: Path) -> None:
        self._git = git
        self._env = {"GIT_INDEX_FILE": str(index)}

    async def attributes(self, commit: Commit, paths: Sequence[str]) -> Mapping[str, Attributes]:
        """Return the attributes `merge` and `filter` of paths, from the .gitattributes of a commit and of the user."""
        await self._git("read-tree", commit, env=self._env)
        wanted = b"".join(os.fsencode(path) + b"\0" for path in paths)
        said = await self._git("check-attr", "--cached", "-z", "--stdin", MERGE, FILTER, stdin=wanted, env=self._env)
        found: dict[str, dict[str, str]] = {path: {} for path in paths}
        for path, name, value in zip(*(iter(said.records),) * 3, strict=True):
            found[path][name] = value
        return found

    async def tree_with(self, tree: TreeId, files: Mapping[str, NewFile]) -> TreeId:
        """Write a tree that differs from `tree` only in these files, and return its id."""
        written = {path: (file.mode, await write_blob(self._git, file.data)) for path, file in files.items()}
        return await self.tree_with_objects(tree, written)

    async def tree_with_objects(self, tree: TreeId, entries: Mapping[str, tuple[str, str]]) -> TreeId:
        """Do the same with modes and existing objects; the mode `0` removes a path."""
        await self._git("read-tree", tree, env=self._env)
        lines = (f"{mode} {found} 0\t".encode() + os.fsencode(path) + b"\0" for path, (mode, found) in entries.items())
        await self._git("update-index", "-z", "--index-info", stdin=b"".join(lines), env=self._env)
        return TreeId((await self._git("write-tree", env=self._env)).line)


class TreeFile(Struct, frozen=True):
    """A regular file of a tree: its mode in octal, the id of its contents, and the contents."""

    mode: str
    object_id: str
    data: bytes


async def read_file(git: Git, tree: str, path: str) -> TreeFile | None:
    """Return the regular file at `path` in a tree or commit, or None."""
    folder, _, name = path.rpartition("/")
    for record in await _list_folder(git, tree, folder):
        details, _, found = record.partition("\t")
        mode, _, object_id = details.split()
        if found == name and mode in REGULAR_MODES:
            data = (await git.read_cached("cat-file", "blob", commits=[object_id])).out
            return TreeFile(mode, object_id, data)
    return None


async def write_blob(git: Git, data: bytes) -> str:
    """Write the contents of a file as they are, and return their id."""
    return (await git("hash-object", "-w", "--no-filters", "--stdin", stdin=data)).line


async def tree_with(git: Git, tree: TreeId, path: str, *, mode: str, object_id: str) -> TreeId:
    """Write a tree that differs from `tree` only in the existing file at `path`, and return its id."""
    entry = f"{mode} blob {object_id}"
    while True:
        folder, _, name = path.rpartition("/")
        records = [each for each in await _list_folder(git, tree, folder) if each.partition("\t")[2] != name]
        listed = b"".join(os.fsencode(each) + b"\0" for each in (*records, f"{entry}\t{name}"))
        made = TreeId((await git("mktree", "-z", "--missing", stdin=listed)).line)
        if not folder:
            return made
        entry, path = f"040000 tree {made}", folder


async def _list_folder(git: Git, tree: str, folder: str) -> list[str]:
    """Return the entries of a folder, or of the top, as `MODE TYPE ID<tab>NAME`; empty if it is not a folder."""
    named = f"{tree}:{folder}" if folder else tree
    return (await git.read_cached("ls-tree", "-z", commits=[named], ok=frozenset({0, 128}))).records


@asynccontextmanager
async def private_index(git: Git, folder: Path) -> AsyncIterator[PrivateIndex]:
    """Yield an index in a new folder below `folder`, and remove it at the end."""
    await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True, exist_ok=True)
    # A new folder: the lock of a killed git in it cannot block the next merge.
    with tempfile.TemporaryDirectory(dir=folder, prefix="merge-", ignore_cleanup_errors=True) as own:
        yield PrivateIndex(git, Path(own, "index"))
