"""`ralph --worktree`: a session in a worktree of its own, which stays if anything in it was changed."""

import os
import secrets
from pathlib import Path
from shlex import quote
from typing import Self

from msgspec import Struct

from scaffold.core.ids import Commit
from scaffold.core.printable_text import printable
from scaffold.git.checkouts import worktree
from scaffold.git.repository import Repository, open_repository, starting_point
from scaffold.host.user_dirs import user_dirs


class SessionWorktree(Struct, frozen=True):
    """A worktree in the user's cache directory, detached at the commit that was checked out."""

    repository: Repository
    top: Path
    commit: Commit

    @classmethod
    async def create(cls, cwd: Path) -> Self:
        """Check out the commit of the repository around `cwd`; raises RepositoryError if there is none."""
        repository = await open_repository(cwd, environ=os.environ)
        commit = (await starting_point(repository)).head
        top = user_dirs().cache / "worktrees" / f"{repository.root.name}-{secrets.token_hex(4)}"
        await worktree.add(repository, top, commit)
        return cls(repository, top, commit)

    def folder(self, cwd: Path) -> Path:
        """Return the folder in the worktree that corresponds to `cwd`; it exists."""
        folder = self.top / cwd.resolve().relative_to(self.repository.root.resolve())
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    async def close(self) -> str:
        """Remove the worktree if nothing in it was changed, ignored files included; say what became of it."""
        git = self.repository.git.at(self.top)
        unchanged = (await git("rev-parse", "HEAD")).line == self.commit and not (
            await git("status", "--porcelain", "--ignored", "--untracked-files=normal")
        ).out
        if unchanged:
            await worktree.remove(self.repository, self.top)
            return "nothing was changed: the worktree is removed"
        top, base = quote(str(self.top)), self.commit[:12]
        # Each command on a line of its own: it is copied.
        return printable(
            f"the changes are in {top}, and nowhere else; take them, go on there, or throw them away:\n"
            f"  git -C {top} add -A && git -C {top} diff --cached --binary {base} | git apply --3way\n"
            f"  ralph -c --cwd {top}\n"
            f"  git worktree remove --force {top}"
        )
