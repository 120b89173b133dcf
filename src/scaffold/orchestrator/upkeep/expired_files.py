"""Files that are kept for a limited time: logs, reports, copies of patches, prepared environments.

They expire by age, logs and reports also by total size, the oldest first, but nothing younger than the oldest
unfinished run. Unlanded work and ignored files never expire: only `purge --unlanded` removes them. The rows of runs
stay, because they are the evidence of what landed.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from msgspec import Struct

from scaffold.core.printable_text import count_of
from scaffold.core.run_settings import KeepSettings
from scaffold.core.states import Cancelled, Completed, Failed
from scaffold.host.atomic_files import delete_path
from scaffold.host.folder_tree import walk
from scaffold.run.context import RunContext
from scaffold.run.projections import PROJECTIONS, REPORTS
from scaffold.verify.environment.golden import ENVIRONMENTS, delete_unused, unused
from scaffold.worker.workspace.rescue_diff import FAILURES, RESTARTS

DAY_S = 86_400.0
ENDED = (Cancelled, Completed, Failed)
ExpiredKind = Literal["logs", "patches", "cache"]


class Expired(Struct, frozen=True, kw_only=True):
    """Something that has expired."""

    kind: ExpiredKind
    name: str
    why: str
    paths: tuple[Path, ...] = ()


class _File(Struct, frozen=True):
    path: Path
    size: int
    modified: float
    """Seconds since 1970."""


def list_expired(context: RunContext, keep: KeepSettings) -> tuple[Expired, ...]:
    """Return what has expired by the settings; nothing of an unfinished run has."""
    before = _expiry_time(context, keep.days)
    return (
        *_expired_logs(context, keep, before),
        *_expired_patches(context, keep, before),
        *_expired_caches(context, keep, before),
    )


def remove_expired(context: RunContext, found: tuple[Expired, ...], keep: KeepSettings) -> None:
    """Remove what `list_expired` returned. Safe to repeat, and to kill at any point."""
    for each in found:
        if each.kind == "cache":
            delete_unused(context.cache / ENVIRONMENTS, before=_expiry_time(context, keep.days))
        else:
            for path in each.paths:
                delete_path(path)


def _expiry_time(context: RunContext, days: float) -> float:
    """Return the time before which files expire, in seconds since 1970."""
    # Journals and patches belong to an action, not a run, so all younger ones may be of the unfinished run.
    begun = [run.created_at.timestamp() for run in context.store.runs.all() if not isinstance(run.state, ENDED)]
    return min(context.clock.now().timestamp() - days * DAY_S, *begun, math.inf)


def logs_size(root: Path, common_dir: Path) -> int:
    """Return the size in bytes of the logs and reports of a repository."""
    tops = (root / PROJECTIONS, common_dir / "scaffold")
    return sum(each.size for top in tops for each in _files_in(top / "logs", top / REPORTS))


def _expired_logs(context: RunContext, keep: KeepSettings, before: float) -> Iterator[Expired]:
    """Yield the logs and reports that are too old, or too large in total."""
    state = context.repository.common_dir / "scaffold"
    # Recent files of a running run stay, whatever their size.
    latest = _expiry_time(context, 1)
    for top in (context.projections, state):
        room = keep.logs_mb * 1e6
        old, many = list[_File](), list[_File]()
        for file in _files_in(top / "logs", top / REPORTS):
            room -= file.size
            if file.modified < before:
                old.append(file)
            elif room < 0 and file.modified < latest:
                many.append(file)
        yield from _expired_files("logs", top, old, f"older than {keep.days:g} days")
        yield from _expired_files("logs", top, many, f"beyond the latest {keep.logs_mb:g} MB")


def _expired_patches(context: RunContext, keep: KeepSettings, before: float) -> Iterator[Expired]:
    old = [
        each
        for each in _files_in(context.projections / FAILURES, context.projections / RESTARTS)
        if each.modified < before
    ]
    yield from _expired_files("patches", context.projections, old, f"older than {keep.days:g} days; the work is pinned")


def _expired_caches(context: RunContext, keep: KeepSettings, before: float) -> Iterator[Expired]:
    folders = unused(context.cache / ENVIRONMENTS, before=before)
    if folders:
        why = f"{count_of(len(folders), 'prepared environment')} that no run used for {keep.days:g} days"
        yield Expired(kind="cache", name=str(context.cache / ENVIRONMENTS), why=why, paths=folders)


def _expired_files(kind: ExpiredKind, top: Path, files: list[_File], why: str) -> Iterator[Expired]:
    if files:
        size = sum(each.size for each in files) / 1e6
        text = f"{count_of(len(files), 'file')}, {size:.1f} MB: {why}"
        yield Expired(kind=kind, name=str(top), why=text, paths=tuple(each.path for each in files))


def _files_in(*folders: Path) -> list[_File]:
    """Return the files in the folders, latest first."""
    found = list[_File]()
    for folder in folders:
        for where, _, names in walk(folder):
            for name in names:
                path = Path(where, name)
                try:
                    status = path.lstat()
                except FileNotFoundError:
                    continue  # deleted by another process
                found.append(_File(path, status.st_size, status.st_mtime))
    return sorted(found, key=lambda each: (-each.modified, each.path))
