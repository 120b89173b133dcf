"""A temporary repository that reads the objects of another repository and adds nothing to it."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec import Struct

from scaffold.core.ids import Commit, TreeId
from scaffold.core.run_settings import Signature
from scaffold.git.client.command_line import Git
from scaffold.git.commits import commit_tree, tree_of
from scaffold.git.repository import Repository
from scaffold.git.trees.tree_file import tree_with, write_blob
from scaffold.host.atomic_files import delete_path
from scaffold.host.leftovers import new_temporary_folder

NOBODY = Signature(name="Scaffold", email="scaffold@invalid")


class ScratchRepository(Struct, frozen=True):
    """Commits made here exist in no other object store, so nothing outside can refer to them."""

    git: Git
    """At the top of its checkout."""

    async def commit_with(self, base: Commit, commit: Commit, path: str, mode: str, content: bytes) -> Commit:
        """Return a commit on `base` with the files of `commit`, with the content of one existing file replaced."""
        blob = await write_blob(self.git, content)
        tree = await tree_with(self.git, await tree_of(self.git, commit), path, mode=mode, object_id=blob)
        return await self.commit_of(base, tree)

    async def commit_of(self, base: Commit, tree: TreeId) -> Commit:
        """Return a commit of a tree on `base`."""
        return await commit_tree(
            self.git, tree, parents=[base], message="A change to review\n", author=NOBODY, committer=NOBODY
        )

    async def check_out(self, commit: Commit) -> None:
        """Check out `commit`."""
        await self.git("read-tree", "-u", "--reset", commit)


@asynccontextmanager
async def scratch_repository(source: Repository) -> AsyncIterator[ScratchRepository]:
    """Yield a new repository that reads the objects of `source`, then remove it; after a kill, a later run does."""
    folder = new_temporary_folder("scratch", None)
    try:
        # A `Git` of its own: the caches of `source.git` are keyed by commit ids, which this repository does not share.
        bare = Git(folder, environ=source.git.environ)
        form = (await source.git("rev-parse", "--show-object-format")).line
        await bare("init", "-q", "--template=", f"--object-format={form}")
        info = folder / ".git" / "objects" / "info"
        info.mkdir(parents=True, exist_ok=True)
        (info / "alternates").write_bytes(os.fsencode(source.common_dir / "objects") + b"\n")
        yield ScratchRepository(Git(folder, environ=source.git.environ, top=True))
    finally:
        await asyncio.to_thread(delete_path, folder)
