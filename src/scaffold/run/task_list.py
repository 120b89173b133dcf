"""The task list of a run in a tree: its marks land with the work, but are not a change of an agent."""

import asyncio
import os
from functools import partial

from msgspec import Struct

from scaffold.core.errors import PlanInvalid
from scaffold.core.ids import Commit, TreeId
from scaffold.core.run_settings import WriteBack
from scaffold.git.client.command_line import Git
from scaffold.git.commits import changed_paths, commit_tree, patch_fingerprint, tree_of
from scaffold.git.trees.merge import HELPER
from scaffold.git.trees.tree_file import read_file, tree_with, write_blob
from scaffold.plan.source.formats import done_ids, same_but_for_marks, with_marked

MESSAGE = "A commit with the tasks marked that land on it\n"


class ListVersion(Struct, frozen=True, kw_only=True):
    """The list in one tree."""

    mode: str
    object_id: str
    text: str


async def read_list(git: Git, listed: WriteBack, tree: str) -> ListVersion | None:
    """Return the list in a tree or a commit; None if it has no such file, or if that is not UTF-8 text."""
    file = await read_file(git, tree, listed.path)
    if file is None:
        return None
    try:
        return ListVersion(mode=file.mode, object_id=file.object_id, text=file.data.decode())
    except UnicodeDecodeError:
        return None


async def with_list(git: Git, listed: WriteBack, tree: TreeId, version: ListVersion, text: str) -> TreeId:
    """Write a tree that has `text` as its list, with the mode of `version`, and return its id."""
    if text == version.text:
        blob = version.object_id
    else:
        blob = await write_blob(git, text.encode())
    return await tree_with(git, tree, listed.path, mode=version.mode, object_id=blob)


async def with_marks_of(git: Git, listed: WriteBack | None, base: Commit, commit: Commit) -> Commit:
    """Return a commit with the tree of `base`, in which the tasks are marked that `commit` has marked besides.

    The difference from it to `commit` is what was changed but for these marks. It is `base` itself if there are none.
    """
    if listed is None:
        return base
    before, after = await read_list(git, listed, base), await read_list(git, listed, commit)
    if before is None or after is None or before.object_id == after.object_id:
        return base
    marked = await asyncio.to_thread(_marked_as, listed, before.text, after.text)
    if marked == before.text:
        return base
    tree = await with_list(git, listed, await tree_of(git, base), before, marked)
    return await commit_tree(git, tree, parents=[base], message=MESSAGE, author=HELPER, committer=HELPER)


async def own_changed_paths(git: Git, listed: WriteBack | None, old: Commit, new: Commit) -> tuple[str, ...]:
    """Return the paths that differ between two commits, without a list in which only marks do."""
    paths = await changed_paths(git, old, new)
    if listed is None or listed.path not in paths or not await _only_marks(git, listed, old, new):
        return paths
    return tuple(path for path in paths if path != listed.path)


async def own_fingerprint(git: Git, listed: WriteBack | None, old: Commit, new: Commit) -> bytes:
    """Return a fingerprint as `patch_fingerprint` does, without a list in which only marks differ."""
    whole = await patch_fingerprint(git, old, new)
    if listed is None or listed.path not in await changed_paths(git, old, new):
        return whole
    if not await _only_marks(git, listed, old, new):
        return whole
    parts, path = whole.split(b"\0"), os.fsencode(listed.path)
    pairs = zip(parts[::2], parts[1::2], strict=False)
    return b"".join(b"\0".join((*pair, b"")) for pair in pairs if pair[1] != path)


async def _only_marks(git: Git, listed: WriteBack, old: Commit, new: Commit) -> bool:
    before, after = await read_list(git, listed, old), await read_list(git, listed, new)
    if before is None or after is None or before.mode != after.mode:
        return False
    compare = partial(same_but_for_marks, listed.format, before.text, after.text, name=listed.path)
    try:
        return await asyncio.to_thread(compare)
    except PlanInvalid:
        return False


def _marked_as(listed: WriteBack, before: str, after: str) -> str:
    try:
        done = [done_ids(listed.format, text, name=listed.path) for text in (before, after)]
        return with_marked(listed.format, before, done[1] - done[0], name=listed.path)
    except PlanInvalid:
        return before
