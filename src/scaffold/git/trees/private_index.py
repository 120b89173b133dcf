"""Write trees and read attributes through a private index; no work tree is touched."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from scaffold.core.ids import Commit, TreeId
from scaffold.git.client.command_line import Git

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
        await self._git("read-tree", tree, env=self._env)
        entries = b""
        for path, file in files.items():
            blob = (await self._git("hash-object", "-w", "--no-filters", "--stdin", stdin=file.data)).line
            entries += f"{file.mode} {blob} 0\t".encode() + os.fsencode(path) + b"\0"
        await self._git("update-index", "-z", "--index-info", stdin=entries, env=self._env)
        return TreeId((await self._git("write-tree", env=self._env)).line)


@asynccontextmanager
async def private_index(git: Git, folder: Path) -> AsyncIterator[PrivateIndex]:
    """Yield an index in a new folder below `folder`, and remove it at the end."""
    await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True, exist_ok=True)
    # A new folder: the lock of a killed git in it cannot block the next merge.
    with tempfile.TemporaryDirectory(dir=folder, prefix="merge-", ignore_cleanup_errors=True) as own:
        yield PrivateIndex(git, Path(own, "index"))
