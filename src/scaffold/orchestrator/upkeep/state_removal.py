"""Remove Scaffold's state of one repository, or everything of a user."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG
from typing import Literal

from msgspec import Struct

from scaffold.core.errors import RunBusy, StoreError
from scaffold.core.knowledge import LEARNINGS, MEMORIES
from scaffold.core.model import Run
from scaffold.core.printable_text import count_of
from scaffold.git import refs
from scaffold.git.repository import Repository
from scaffold.host.atomic_files import delete_path
from scaffold.host.contained_path import ContainedPath
from scaffold.host.user_dirs import UserDirs
from scaffold.orchestrator.upkeep.run_cleanup import clean_up
from scaffold.orchestrator.upkeep.unlanded import list_archived
from scaffold.run.context import RunContext
from scaffold.run.ignored_archive import ARCHIVES, archive_folder, archives_folder
from scaffold.run.learning.stores import user_store_if_any
from scaffold.run.projections import PROJECTIONS
from scaffold.views.store_reader import executing_process

PIN_PREFIXES = tuple(f"{refs.REF_PREFIX}{kind}/" for kind in ("rescue", "work", "keep"))
SCHEMA_FILE = "schema"
"""The file with the name of the repository's schema, if its state is on a PostgreSQL server."""


class PurgeItem(Struct, frozen=True, kw_only=True):
    """Something that Scaffold owns or created, and whether it is removed."""

    kind: Literal["state", "schema", "ref", "ignored", "cache", "branch", "projections", "user"]
    name: str
    """A path, the full name of a ref, or a schema."""
    size_bytes: int | None
    """None for refs and schemas."""
    removed: bool
    why: str


class Purge(Struct, frozen=True, kw_only=True):
    """The removal of a repository's state, with `everything` also of the user's directories."""

    repository: Repository
    dirs: UserDirs
    context: RunContext | None
    """None if nothing was ever run here."""
    unlanded: bool
    """Also remove pinned work that has not landed, and ignored files."""
    everything: bool
    """Also remove the user's directories."""

    async def plan_purge(self) -> tuple[PurgeItem, ...]:
        """Return what is removed and what is kept, and why; raises RunBusy if a run has a live owner."""
        if self.context is not None:
            require_no_live_run(self.context.store.runs.all())
        # Two are equal on macOS.
        users = dict.fromkeys((self.dirs.cache, self.dirs.data, self.dirs.config)) if self.everything else ()
        return (
            *(self._ref_item(ref) for ref in await refs.list_refs(self.repository.git, refs.REF_PREFIX)),
            *await self._branch_items(),
            *self._cache_items(),
            *self._archive_items(),
            *self._state_items(),
            *self._projection_items(),
            *(self._user_folder_item(folder) for folder in users if folder.is_dir()),
        )

    async def execute(self) -> tuple[PurgeItem, ...]:
        """Pin unlanded work, remove the chosen items, close the store; return what was removed and kept.

        The database goes last, so that an interrupted purge can be repeated.
        """
        if self.context is not None:
            require_no_live_run(self.context.store.runs.all())
            await clean_up(self.context, dry=False)
        # Planned again, because the cleanup has replaced worktrees by refs.
        items = await self.plan_purge()
        refs_now = await refs.list_refs(self.repository.git, refs.REF_PREFIX)
        for item in items:
            # Another process may have deleted the ref.
            if item.removed and item.kind == "ref" and (commit := refs_now.get(item.name)):
                await refs.delete(self.repository.git, item.name, old=commit)
        if self.context is not None:
            require_no_live_run(self.context.store.runs.all())
            self.context.store.erase()
            self.context.store.close()
            # Without it, what waits in all repositories would be looked for here, too.
            with suppress(StoreError), user_store_if_any(self.context.clock) as user:
                if user is not None:
                    with user.transaction():
                        user.repositories.forget(self.repository.common_dir)
        kept = any(item.kind == "ignored" and not item.removed for item in items)
        for item in items:
            if item.removed and item.kind in {"cache", "user"}:
                delete_path(Path(item.name))
            elif item.removed and item.kind == "ignored":
                (archives_folder(self.repository.common_dir) / Path(item.name).name).delete()
            elif item.removed and item.kind == "state":
                _delete_state(Path(item.name), but=ARCHIVES if kept else "")
        return items

    @property
    def _worktrees_folder(self) -> Path | None:
        # None if nothing was ever run here.
        runs = self.context.store.runs.all() if self.context else ()
        return self.context.run_folder(runs[0].id).parent if self.context and runs else None

    def _ref_item(self, ref: str) -> PurgeItem:
        attempt = self.context.store.attempts.get(refs.attempt_id_of(ref)) if self.context else None
        # The work ref has the landed commit; the other refs pin unlanded work of the attempt.
        landed = attempt is not None and attempt.outcome == "landed" and ref == refs.work_ref(attempt.id)
        kept = ref.startswith(PIN_PREFIXES) and not self.unlanded and not landed
        why = "it pins work that has not landed; `--unlanded` removes it" if kept else "created by Scaffold"
        return PurgeItem(kind="ref", name=ref, size_bytes=None, removed=not kept, why=why)

    async def _branch_items(self) -> list[PurgeItem]:
        names = {run.session_branch for run in self.context.store.runs.all()} if self.context else set()
        branches = await refs.list_refs(self.repository.git, "refs/heads/")
        mine = [ref for ref in branches if ref.removeprefix("refs/heads/") in names]
        return [PurgeItem(kind="branch", name=ref, size_bytes=None, removed=False, why="your work") for ref in mine]

    def _cache_items(self) -> Iterator[PurgeItem]:
        # Worktrees of unknown runs may be in use.
        folder = self._worktrees_folder
        if folder is not None and folder.is_dir() and self.context is not None:
            known = {run.id for run in self.context.store.runs.all()}
            unknown = [each for each in _with_worktrees(folder) if each.name not in known]
            why = f"{unknown[0]} is not in the database and may be in use" if unknown else "worktrees"
            yield PurgeItem(
                kind="cache", name=str(folder), size_bytes=folder_size(folder), removed=not unknown, why=why
            )

    def _archive_items(self) -> Iterator[PurgeItem]:
        # The only copies of ignored files.
        for archive in list_archived(self.repository.common_dir, self.context.store if self.context else None):
            kept = not self.unlanded
            why = "ignored files, which never land; `--unlanded` removes them" if kept else "ignored files"
            name = archive_folder(self.repository.common_dir, archive.attempt)
            size = folder_size(name.top, name.name)
            yield PurgeItem(kind="ignored", name=str(name), size_bytes=size, removed=not kept, why=why)

    def _state_items(self) -> Iterator[PurgeItem]:
        folder = self.repository.common_dir / "scaffold"
        schema = folder / SCHEMA_FILE
        if schema.is_file():
            reached = self.context is not None
            why = (
                f"the schema on the PostgreSQL server{self._written_down()}"
                if reached
                else "on a server: set SCAFFOLD_DATABASE_URL to reach it"
            )
            name = schema.read_text("utf-8").strip()
            yield PurgeItem(kind="schema", name=name, size_bytes=None, removed=reached, why=why)
        if folder.is_dir():
            why = f"the database with its runs{'' if schema.is_file() else self._written_down()}"
            yield PurgeItem(kind="state", name=str(folder), size_bytes=folder_size(folder), removed=True, why=why)

    def _written_down(self) -> str:
        """Return what users and agents wrote into the database, as part of a sentence; empty if there is nothing."""
        if self.context is None:
            return ""
        items, count = len(self.context.store.work_items.all()), self.context.store.knowledge.chunks.count
        learnings, memories = count(LEARNINGS), count(MEMORIES)
        found = [
            *([count_of(learnings, "learning")] if learnings else []),
            *([count_of(items, "item")] if items else []),
            *([count_of(memories, "memory", "memories")] if memories else []),
        ]
        return f", with {' and '.join(found)}" if found else ""

    def _projection_items(self) -> Iterator[PurgeItem]:
        folder = ContainedPath(self.repository.root, PROJECTIONS)
        if folder.status() is not None:
            why = "logs, and possibly your settings; delete it by hand"
            size = folder_size(folder.top, folder.name)
            yield PurgeItem(kind="projections", name=str(folder), size_bytes=size, removed=False, why=why)

    def _user_folder_item(self, folder: Path) -> PurgeItem:
        # The user's folders serve all repositories, and a worktree may have the only copy of unlanded work.
        runs = folder / "runs"
        known = sorted(runs.iterdir()) if runs.is_dir() else []
        others = [each for each in known if each != self._worktrees_folder and any(_with_worktrees(each))]
        # A link may lead anywhere, and the repository must not be deleted with the folder.
        inside = folder.is_symlink() or self.repository.root.resolve().is_relative_to(folder.resolve())
        why = "your settings, memory or cached files"
        if others:
            why = f"worktrees of another repository are in {others[0]}: `scaffold purge` there first"
        elif inside:
            why = "it is a link, or this repository is inside it"
        removed = not others and not inside
        return PurgeItem(kind="user", name=str(folder), size_bytes=folder_size(folder), removed=removed, why=why)


def _delete_state(folder: Path, *, but: str) -> None:
    for entry in folder.iterdir() if but else (folder,):
        if entry.name != but:
            delete_path(entry)


def require_no_live_run(runs: Sequence[Run]) -> None:
    """Raise RunBusy if a live process owns one of the runs."""
    for run in runs:
        if executing_process(run) is not None:
            raise RunBusy(f"run {run.id} is being executed", f"Stop it first: `scaffold stop {run.id}`.")


def folder_size(folder: Path, name: str = "") -> int:
    """Return the size in bytes of all files in `folder`, or in the folder `name` below it, without following links."""
    return sum(status.st_size for _, status in ContainedPath(folder, name).entries() if S_ISREG(status.st_mode))


def _with_worktrees(repository: Path) -> Iterator[Path]:
    for run in sorted(repository.iterdir()) if repository.is_dir() else []:
        if any(run.glob("attempts/*/.git")) or (run / "landing" / ".git").exists():
            yield run
