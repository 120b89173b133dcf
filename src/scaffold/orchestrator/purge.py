"""Taking Scaffold's state away again: a repository's, or everything of a user's."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from scaffold.core.errors import RunBusy
from scaffold.core.model import Run
from scaffold.git import refs
from scaffold.git.repository import Repository
from scaffold.host.dirs import Dirs
from scaffold.orchestrator.cleanup import attempt_of, busy, clean_up, delete_folder
from scaffold.store.database import Store
from scaffold.worker.site import Site

PINS = (f"{refs.PREFIX}rescue/", f"{refs.PREFIX}work/")
PROJECTIONS = ".scaffold"
SCHEMA = "schema"
"""The file that names the repository's schema, where its state is on a server."""


class Item(Struct, frozen=True, kw_only=True):
    """One thing that is ours or was made by us."""

    kind: Literal["state", "schema", "ref", "cache", "branch", "projections", "user"]
    name: str
    """A path, the full name of a ref, or a schema."""
    size_bytes: int | None
    """None for refs and schemas."""
    removed: bool
    why: str


class Purge(Struct, frozen=True, kw_only=True):
    """What is to go."""

    repository: Repository
    dirs: Dirs
    site: Site | None
    """None where nothing was ever run."""
    unlanded: bool
    """Whether work that has not landed goes, too."""
    everything: bool
    """Whether the user's own directories go, too."""

    async def survey(self) -> tuple[Item, ...]:
        """Return what goes and what stays, and why; RunBusy while a run is carried out."""
        if self.site is not None:
            refuse_while_busy(self.site.store.runs.all())
        return (
            *await self._refs(),
            *await self._branches(),
            *self._cache(),
            *self._state(),
            *self._projections(),
            *(self._user() if self.everything else ()),
        )

    async def carry_out(self) -> tuple[Item, ...]:
        """Pin what has not landed, remove what goes, close the store, and return what went and what stayed.

        The database goes last, so that this can be repeated wherever it was killed.
        """
        if self.site is not None:
            refuse_while_busy(self.site.store.runs.all())
            await clean_up(self.site, dry=False)
        items = await self.survey()
        held = await refs.listed(self.repository.git, refs.PREFIX)
        for item in items:
            if item.removed and item.kind == "ref":
                await refs.delete(self.repository.git, item.name, old=held[item.name])
        if self.site is not None:
            refuse_while_busy(self.site.store.runs.all())
            self.site.store.erase()
            self.site.store.close()
        for item in items:
            if item.removed and item.kind in {"cache", "state", "user"}:
                delete_folder(Path(item.name), below=self._above(item))
        return items

    def _above(self, item: Item) -> Path:
        """Return what a folder must be inside of to be removed."""
        match item.kind:
            case "cache":
                return self.dirs.cache / "runs"
            case "state":
                return self.repository.common_dir
            case _:
                return Path(item.name).parent

    @property
    def _place(self) -> Path | None:
        """Where the repository's worktrees are; None where nothing was ever run."""
        runs = self.site.store.runs.all() if self.site else ()
        return self.site.run_folder(runs[0].id).parent if self.site and runs else None

    async def _refs(self) -> list[Item]:
        store = self.site.store if self.site else None
        return [self._ref(store, ref) for ref in await refs.listed(self.repository.git, refs.PREFIX)]

    def _ref(self, store: Store | None, ref: str) -> Item:
        attempt = store.attempts.get(attempt_of(ref)) if store else None
        kept = ref.startswith(PINS) and not self.unlanded and (attempt is None or attempt.outcome != "landed")
        why = "it holds work that has not landed; `--unlanded` removes it" if kept else "a ref of ours"
        return Item(kind="ref", name=ref, size_bytes=None, removed=not kept, why=why)

    async def _branches(self) -> list[Item]:
        names = {run.session_branch for run in self.site.store.runs.all()} if self.site else set()
        there = await refs.listed(self.repository.git, "refs/heads/")
        mine = [ref for ref in there if ref.removeprefix("refs/heads/") in names]
        return [Item(kind="branch", name=ref, size_bytes=None, removed=False, why="your work") for ref in mine]

    def _cache(self) -> Iterator[Item]:
        """Name the folder of the repository's worktrees; it stays while there are some that the database knows not."""
        folder = self._place
        if folder is not None and folder.is_dir() and self.site is not None:
            known = {run.id for run in self.site.store.runs.all()}
            strange = [each for each in _with_worktrees(folder) if each.name not in known]
            why = f"{strange[0]} is not in the database, nobody knows whether it is in use" if strange else "worktrees"
            yield Item(kind="cache", name=str(folder), size_bytes=size(folder), removed=not strange, why=why)

    def _state(self) -> Iterator[Item]:
        folder = self.repository.common_dir / "scaffold"
        schema = folder / SCHEMA
        if schema.is_file():
            reached = self.site is not None
            why = (
                "the schema on the PostgreSQL server"
                if reached
                else "on a server: set SCAFFOLD_DATABASE_URL to reach it"
            )
            name = schema.read_text("utf-8").strip()
            yield Item(kind="schema", name=name, size_bytes=None, removed=reached, why=why)
        if folder.is_dir():
            why = "the database with its runs"
            yield Item(kind="state", name=str(folder), size_bytes=size(folder), removed=True, why=why)

    def _projections(self) -> Iterator[Item]:
        folder = self.repository.root / PROJECTIONS
        if folder.is_dir():
            why = "logs to read, and perhaps settings of yours; delete it by hand"
            yield Item(kind="projections", name=str(folder), size_bytes=size(folder), removed=False, why=why)

    def _user(self) -> Iterator[Item]:
        for folder in (self.dirs.cache, self.dirs.data, self.dirs.config):
            if folder.is_dir():
                yield self._own(folder)

    def _own(self, folder: Path) -> Item:
        others = [each for each in _repositories(folder) if each != self._place and any(_with_worktrees(each))]
        inside = folder.is_symlink() or self.repository.root.resolve().is_relative_to(folder.resolve())
        why = "your settings, memory or cached files"
        if others:
            why = f"worktrees of another repository are in {others[0]}: `scaffold purge` there first"
        elif inside:
            why = "it is a link, or this repository is inside of it"
        removed = not others and not inside
        return Item(kind="user", name=str(folder), size_bytes=size(folder), removed=removed, why=why)


def refuse_while_busy(runs: Sequence[Run]) -> None:
    """Raise RunBusy if a living process carries one of the runs out."""
    for run in runs:
        if busy(run):
            raise RunBusy(f"run {run.id} is being carried out", f"Stop it first: `scaffold stop {run.id}`.")


def size(folder: Path) -> int:
    """Return how many bytes the files in `folder` hold; links count for themselves."""
    return sum((Path(where) / name).lstat().st_size for where, _, names in os.walk(folder) for name in names)


def _repositories(cache: Path) -> list[Path]:
    runs = cache / "runs"
    return sorted(runs.iterdir()) if runs.is_dir() else []


def _with_worktrees(repository: Path) -> Iterator[Path]:
    """Name the folders of runs in which worktrees are."""
    for run in sorted(repository.iterdir()) if repository.is_dir() else []:
        if any(run.glob("attempts/*/.git")) or (run / "landing" / ".git").exists():
            yield run
