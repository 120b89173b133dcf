"""Read one file of a tree, and write a tree with another version of it, without an index."""

import os

from msgspec import Struct

from scaffold.core.ids import TreeId
from scaffold.git.client.command_line import Git
from scaffold.git.trees.merge import REGULAR_MODES

TREE_MODE = "040000"


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
        entry, path = f"{TREE_MODE} tree {made}", folder


async def _list_folder(git: Git, tree: str, folder: str) -> list[str]:
    """Return the entries of a folder, or of the top, as `MODE TYPE ID<tab>NAME`; empty if it is not a folder."""
    named = f"{tree}:{folder}" if folder else tree
    return (await git.read_cached("ls-tree", "-z", commits=[named], ok=frozenset({0, 128}))).records
