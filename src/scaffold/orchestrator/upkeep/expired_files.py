"""Files that are kept for a limited time: logs, reports, copies of patches, prepared environments.

They expire by age, logs and reports also by total size, the oldest first, but nothing younger than the oldest
unfinished run. Unlanded work and ignored files never expire: only `purge --unlanded` removes them. The rows of runs
stay, because they are the evidence of what landed. In the checkout only files go whose names follow from these rows.
"""

import math
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from stat import S_ISREG
from typing import Literal

from msgspec import Struct

from scaffold.core.printable_text import count_of
from scaffold.core.run_settings import KeepSettings
from scaffold.core.states import Cancelled, Completed, Failed
from scaffold.host.contained_path import ContainedPath
from scaffold.orchestrator.owner.run_files import LOG_NAME
from scaffold.run.attempts.assignment import journal_names
from scaffold.run.context import RunContext, gate_logs_name, journal_name
from scaffold.run.failures.rescue_diff import FAILURES, RESTARTS, diff_names
from scaffold.run.projections import LOGS, REPORTS, projection_places, report_name
from scaffold.verify.environment.golden import ENVIRONMENTS, delete_unused, unused
from scaffold.worker.second_review.reviewer_probe import PROBES

DAY_S = 86_400.0
ENDED = (Cancelled, Completed, Failed)
ExpiredKind = Literal["logs", "patches", "cache"]


class Expired(Struct, frozen=True, kw_only=True):
    """Something that has expired."""

    kind: ExpiredKind
    name: str
    why: str
    paths: tuple[ContainedPath, ...] = ()


class _File(Struct, frozen=True):
    path: ContainedPath
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
                path.delete()


def _expiry_time(context: RunContext, days: float) -> float:
    """Return the time before which files expire, in seconds since 1970."""
    # Journals and patches belong to an action, not a run, so all younger ones may be of the unfinished run.
    begun = [run.created_at.timestamp() for run in context.store.runs.all() if not isinstance(run.state, ENDED)]
    return min(context.clock.now().timestamp() - days * DAY_S, *begun, math.inf)


def logs_size(root: Path, common_dir: Path) -> int:
    """Return the size in bytes of the logs and reports of a repository."""
    return sum(each.size for top in projection_places(root, common_dir) for each in _files_in(top, LOGS, REPORTS))


def _expired_logs(context: RunContext, keep: KeepSettings, before: float) -> Iterator[Expired]:
    """Yield the logs and reports that are too old, or too large in total."""
    # Recent files of a running run stay, whatever their size.
    latest = _expiry_time(context, 1)
    for top in context.projection_places:
        room = keep.logs_mb * 1e6
        old, many = list[_File](), list[_File]()
        for file in _own_files_in(context, top, LOGS, REPORTS):
            room -= file.size
            if file.modified < before:
                old.append(file)
            elif room < 0 and file.modified < latest:
                many.append(file)
        yield from _expired_files("logs", top, old, f"older than {keep.days:g} days")
        yield from _expired_files("logs", top, many, f"beyond the latest {keep.logs_mb:g} MB")


def _expired_patches(context: RunContext, keep: KeepSettings, before: float) -> Iterator[Expired]:
    found = _own_files_in(context, context.projections, FAILURES, RESTARTS)
    old = [each for each in found if each.modified < before]
    yield from _expired_files("patches", context.projections, old, f"older than {keep.days:g} days; the work is pinned")


def _expired_caches(context: RunContext, keep: KeepSettings, before: float) -> Iterator[Expired]:
    folders = unused(context.cache / ENVIRONMENTS, before=before)
    if folders:
        why = f"{count_of(len(folders), 'prepared environment')} that no run used for {keep.days:g} days"
        yield Expired(kind="cache", name=str(context.cache / ENVIRONMENTS), why=why)


def _expired_files(kind: ExpiredKind, top: ContainedPath, files: list[_File], why: str) -> Iterator[Expired]:
    if files:
        size = sum(each.size for each in files) / 1e6
        text = f"{count_of(len(files), 'file')}, {size:.1f} MB: {why}"
        yield Expired(kind=kind, name=str(top), why=text, paths=tuple(each.path for each in files))


def _own_files_in(context: RunContext, top: ContainedPath, *folders: str) -> list[_File]:
    """Return the files of runs in the folders of the projections, or in those next to the store, latest first."""
    found = _files_in(top, *folders)
    # A repository brings files of its own in the checkout's folder; nothing but ours is next to the store.
    if top != context.projections or not found:
        return found
    names = set(_recorded_names(context))
    own = [(each, PurePosixPath(each.path.name).relative_to(top.name)) for each in found]
    return [each for each, name in own if names & {str(name), str(name.parent)}]


def _recorded_names(context: RunContext) -> Iterator[str]:
    """Yield the names in the projections of the files of all runs, and of folders that have nothing else."""
    yield f"{LOGS}/{LOG_NAME}"
    store = context.store
    for run in store.runs.all():
        yield from (report_name(run.id), gate_logs_name(run.id))
        attempts, turns = store.attempts.for_run(run.id), store.turns.for_run(run.id)
        logs = [*(each.log_file for each in attempts), *(each.log_file for each in turns)]
        yield from ("/".join(Path(log).parts[-3:]) for log in logs if log)
        goals = {goal.id: goal for goal in store.goals.for_run(run.id)}
        actions = {action.id: action for action in store.actions.for_run(run.id)}
        for action in actions.values():
            parent = actions.get(action.parent_id) if action.parent_id else None
            # The agents of merges, and of probes of reviewers, write without a row.
            yield from (journal_name(name, action.key) for name in (goals[action.goal_id].name, PROBES))
            names = journal_names(goals[action.goal_id], action, parent)
            tried = (attempt.number for attempt in attempts if attempt.action_id == action.id)
            yield from (name for number in (0, *tried) for name in (journal_name(*names), *diff_names(names, number)))


def _files_in(top: ContainedPath, *folders: str) -> list[_File]:
    entries = (entry for folder in folders for entry in (top / folder).entries())
    found = [_File(path, status.st_size, status.st_mtime) for path, status in entries if S_ISREG(status.st_mode)]
    return sorted(found, key=lambda each: (-each.modified, each.path.name))
