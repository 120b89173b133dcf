"""Keep the ignored files that an agent made: as private files next to the store, never as objects of git.

Nothing that git ignores lands, so for such a file the attempt's worktree is the only place. A file may hold a secret,
and an object of git is readable for everyone who can fetch; so each is a file with mode 0600 in a folder with 0700.
What tools can make again is left out: see `is_reproducible`.
"""

import asyncio
import functools
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from msgspec import Struct

from scaffold.core.errors import GitError
from scaffold.core.ids import AttemptId
from scaffold.core.model import Attempt, Run
from scaffold.core.printable_text import count_of, utf8_safe
from scaffold.git.checkouts.submodule import checked_out_submodules
from scaffold.git.checkouts.worktree import find_worktree
from scaffold.git.client.command_line import Git
from scaffold.host.contained_path import ContainedPath
from scaffold.host.folder_tree import walk
from scaffold.host.leftovers import made_by_dead_process
from scaffold.policy.secret.unreadable_files import is_secret_file_name, secret_entry
from scaffold.run.context import RunContext
from scaffold.run.notices import inform, warn

LIST_IGNORED = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
"""Names a folder without anything to commit instead of the files in it."""
ARCHIVES = "ignored"
MOST_FILES = 1_000
MOST_LOOKED_AT = 20_000
"""Files looked at in one worktree; a folder of so many is the output of a program. Names are read of all."""
OUTPUT_FOLDERS = frozenset(
    {"node_modules", "site-packages", "dist-packages", "__pycache__", "build", "dist", "target", ".tox", ".nox"}
    | {".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", ".gradle", ".next", "htmlcov", "coverage"}
)
"""Names of folders that package managers, compilers and test runners fill, and fill again."""
OUTPUT_MARKS = ("CACHEDIR.TAG", "pyvenv.cfg")
"""Files by which programs mark a cache, and a virtual environment, whatever its folder's name."""
PRIVATE_FOLDER = 0o700


class _IgnoredFile(Struct, frozen=True):
    path: str
    size: int
    secret: bool


class _LeftOut(Struct, frozen=True):
    """What is not kept of the ignored files that were `found`."""

    found: tuple[str, ...]

    files: tuple[_IgnoredFile, ...]
    """Those that are too large, too many, or cannot be read or written."""
    unseen: int
    """How many were not looked at."""
    why: str
    """The first error while a file was read or written; empty if there was none."""


def archives_folder(common_dir: Path) -> ContainedPath:
    """Return the folder of all archives, each named after its attempt; it may not exist."""
    return ContainedPath(common_dir, f"scaffold/{ARCHIVES}")


def archive_folder(common_dir: Path, attempt_id: AttemptId) -> ContainedPath:
    """Return the folder with the ignored files of an attempt; it may not exist."""
    return archives_folder(common_dir) / attempt_id


def archived_files(common_dir: Path, attempt_id: AttemptId) -> tuple[str, ...]:
    """Return the paths of the files that are kept of an attempt, sorted."""
    top = archive_folder(common_dir, attempt_id)
    found = (path for path, status in top.entries() if stat.S_ISREG(status.st_mode))
    names = [path.name.removeprefix(f"{top.name}/") for path in found if not made_by_dead_process(path.path.name)]
    return tuple(sorted(names))


async def archive_ignored(
    context: RunContext,
    run: Run,
    attempt: Attempt,
    git: Git,
    *,
    env: Mapping[str, str] | None = None,
    known: Sequence[str] | None = None,
) -> tuple[str, ...]:
    """Keep the ignored files in the attempt's worktree, at which `git` works, as they are now; return their paths.

    `known` are those files if they have been listed already. Call it before they are deleted, and after all other work
    is safe. Files that the run copied there are kept only if they were changed. A later version replaces an earlier
    one. Secrets are kept first, then the smallest. Raises nothing because of the files, git or the disk: a notice of
    the run says what is not kept.
    """
    try:
        listed = [*((await git(*LIST_IGNORED, env=env)).records if known is None else known)]
        # Git itself never enters submodules: it would obey what an agent put there.
        registered = find_worktree(context.repository, git.cwd)
        for path, inner in checked_out_submodules(registered) if registered is not None else ():
            listed += [f"{path}/{entry}" for entry in (await inner(*LIST_IGNORED)).records]
    except GitError as error:
        what = utf8_safe(error.what.rstrip("."))
        warn(context, run.id, f"The ignored files of attempt {attempt.id} will be lost with its worktree: {what}.")
        return ()
    if not listed:
        return ()
    baseline = context.store.baselines.for_run(run.id)
    environment = baseline.environment if baseline else None
    folders = [copied.target for copied in environment.copies] if environment else []
    sources = (
        {file.target: Path(file.source) for file in (*environment.files, *environment.built)} if environment else {}
    )
    top, archive = git.cwd, archive_folder(context.repository.common_dir, attempt.id)
    limit = int(run.settings.keep.ignored_mb * 1e6)
    left_out = await asyncio.to_thread(_copy_files, top, listed, archive, folders, sources, limit)
    if left_out.files or left_out.unseen:
        inform(context, run.id, _left_out_notice(left_out, attempt, run.settings.keep.ignored_mb))
    return left_out.found


def _left_out_notice(left_out: _LeftOut, attempt: Attempt, most_mb: float) -> str:
    shown = [f"{utf8_safe(each.path)} ({each.size / 1e6:.1f} MB)" for each in left_out.files[:3]]
    if left_out.unseen:
        shown.append(f"{left_out.unseen} that were not looked at, beyond the first {MOST_LOOKED_AT}")
    elif len(left_out.files) > len(shown):
        shown.append("...")
    count = count_of(len(left_out.files) + left_out.unseen, "ignored file")
    failed = f" Not all could be copied: {utf8_safe(left_out.why)}." if left_out.why else ""
    return (
        f"{count} of attempt {attempt.id} will be lost with its worktree: {', '.join(shown)}. `keep.ignored_mb` "
        f"({most_mb:g}) is the limit, and {MOST_FILES} files.{failed}"
    )


def is_reproducible(top: Path, path: str) -> bool:
    """Return whether a file at `path` is in a folder that tools fill: by its name, or by their mark in it."""
    return any(
        folder.name in OUTPUT_FOLDERS or any(os.path.lexists(top / folder / mark) for mark in OUTPUT_MARKS)
        for folder in PurePosixPath(path).parents
        if folder.name
    )


def restore_archive(common_dir: Path, attempt_id: AttemptId, target: Path) -> tuple[str, ...]:
    """Copy the files kept of an attempt into the new folder `target`, with mode 0600; return their paths.

    Raises FileExistsError if `target` exists.
    """
    target.mkdir(mode=PRIVATE_FOLDER)
    source, paths = archive_folder(common_dir, attempt_id), archived_files(common_dir, attempt_id)
    for path in paths:
        with (source / path).reading() as file:
            (ContainedPath(target) / path).write(file)
    return paths


def _copy_files(
    top: Path,
    listed: Sequence[str],
    archive: ContainedPath,
    folders: Sequence[str],
    sources: Mapping[str, Path],
    limit: int,
) -> _LeftOut:
    paths = _listed_files(top, listed, folders)
    left_out = list[_IgnoredFile]()
    kept, why = 0, ""
    made = _files_by_priority(top, paths[:MOST_LOOKED_AT], sources)
    for each in made:
        try:
            data = (ContainedPath(top) / each.path).read(max(0, limit)) if kept < MOST_FILES else "too many"
            if not isinstance(data, str):
                _write_once(archive, each.path, data)
        except OSError as error:
            # A full disk, a path that is too long there: one file must not keep the others from being kept.
            data = error.strerror or type(error).__name__
            why = why or data
        if isinstance(data, str):
            left_out.append(each)
            continue
        limit -= len(data)
        kept += 1
    found = tuple(sorted(each.path for each in made))
    return _LeftOut(found, tuple(left_out), max(0, len(paths) - MOST_LOOKED_AT), why)


def _files_by_priority(top: Path, paths: Sequence[tuple[str, bool]], sources: Mapping[str, Path]) -> list[_IgnoredFile]:
    # Secrets first, as nothing can make them again; then the smallest, so that most files are kept.
    found = list[_IgnoredFile]()
    for path, secret in paths:
        try:
            file, source = ContainedPath(top) / path, sources.get(path)
            # A link could lead to a file of the user.
            if not file.is_file():
                continue
            size = (top / path).lstat().st_size
            if source is None or source.stat().st_size != size or source.read_bytes() != file.read(size):
                found.append(_IgnoredFile(path, size, secret))
        except FileNotFoundError:
            continue  # a process of the agent's that was left behind deleted it
        except OSError:
            found.append(_IgnoredFile(path, 0, secret))  # told when it cannot be read, either
    return sorted(found, key=lambda each: (not each.secret, each.size, each.path))


def _listed_files(top: Path, listed: Sequence[str], folders: Sequence[str]) -> list[tuple[str, bool]]:
    # Files named like secrets come first, then files listed by themselves: a folder may have very many.
    @functools.cache
    def skipped(folder: str) -> bool:
        return is_reproducible(top, f"{folder}/x") or any(
            PurePosixPath(folder).is_relative_to(each) for each in folders
        )

    @functools.cache
    def secret(folder: str) -> bool:
        return secret_entry(f"{folder}/x") is not None

    alone = (entry for entry in listed if not entry.endswith("/"))
    inside = (path for entry in listed if entry.endswith("/") for path in _files_in(top, entry))
    split = [(*path.rpartition("/")[::2], path) for path in dict.fromkeys((*alone, *sorted(inside)))]
    found = [each for each in split if each[-1] not in folders and not skipped(each[0])]
    # Folders and names alone: the entry for a whole path takes a second for 10,000 of them.
    known = [(path, is_secret_file_name(name) or secret(folder)) for folder, name, path in found]
    return sorted(known, key=lambda each: not each[1])


def _files_in(top: Path, entry: str) -> Iterator[str]:
    if not is_reproducible(top, f"{entry}x"):
        for folder, below, names in walk(top / entry):
            here = Path(folder).relative_to(top)
            # Not entered: a folder of a package manager may have 100,000 files.
            below[:] = [name for name in below if not is_reproducible(top, f"{here.as_posix()}/{name}/x")]
            yield from (f"{here.as_posix()}/{name}" for name in names)


def _write_once(archive: ContainedPath, path: str, data: bytes) -> None:
    target = archive / path
    # What was a file may be a folder by now, and the other way round.
    for above in PurePosixPath(path).parents:
        if above.name and (archive / above).is_file():
            (archive / above).delete()
    if target.read(len(data)) != data:
        if not target.is_file():
            target.delete()
        target.write(data, folder_mode=PRIVATE_FOLDER)
