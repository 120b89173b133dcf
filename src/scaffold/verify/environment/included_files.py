"""Files that git ignores and that `.worktreeinclude` names: kept as they were before the work, copied to worktrees."""

import asyncio
import hashlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from scaffold.core.printable_text import count_of, utf8_safe
from scaffold.core.proof.gates import CopiedFile
from scaffold.git.client.command_line import Git
from scaffold.git.ignored_files import WILDCARDS, ignored_files
from scaffold.host.atomic_files import FileLock, delete_path
from scaffold.host.contained_path import ContainedPath
from scaffold.host.tree_copy import copy_beneath
from scaffold.policy.secret.unreadable_files import secret_entry
from scaffold.policy.trust_decision import INCLUDE_FILE
from scaffold.verify.check_readiness import NotReady
from scaffold.verify.environment.dependencies import hash_lines
from scaffold.verify.environment.golden import (
    ENVIRONMENTS,
    LOCK_TIMEOUT_S,
    GoldenRecord,
    forget_unused,
    load_record,
    write_record,
)

OWN_FOLDER = ".scaffold"
SNAPSHOT = "included-"
"""Prefix of a snapshot's folder."""
MAX_FILES = 10_000
MAX_BYTES = 1 << 30
"""All files together: each worktree gets a copy."""


class IncludedFiles(Struct, frozen=True):
    """The files that the patterns name."""

    names: tuple[str, ...]
    """Relative to the top, sorted."""
    secrets: tuple[str, ...]
    """Files that are left out: they are named like secrets, and only a wildcard or a folder's name matches them."""


async def find_included(git: Git, patterns: Sequence[str], *, installed: Sequence[str]) -> IncludedFiles:
    """Return the ignored files that the patterns name; a secret only if a line ends in its own file name.

    Nothing in the folders `installed` is included; links are not followed.
    """
    skipped = (*installed, OWN_FOLDER)
    names = [name for name in await ignored_files(git, patterns, skipped=skipped) if _is_file(git.cwd, name)]
    left_out = {name for name in names if secret_entry(name)}
    for file_name in sorted({_file_name(name) for name in left_out}):
        # Each name by its own lines: a line that names a secret may also match a folder with other secrets.
        lines = [
            line
            for line in patterns
            if line.startswith("!") or (_file_name(line) == file_name and WILDCARDS.isdisjoint(file_name))
        ]
        if not all(line.startswith("!") for line in lines):
            named = await ignored_files(git, lines, skipped=skipped)
            left_out -= {name for name in named if _file_name(name) == file_name}
    return IncludedFiles(tuple(name for name in names if name not in left_out), tuple(sorted(left_out)))


async def snapshot_files(
    cache: Path, root: Path, names: Sequence[str], *, prefix: str = SNAPSHOT
) -> tuple[CopiedFile, ...] | NotReady:
    """Keep a copy of the files with the prepared environments, under a name that depends on their contents."""
    odd = next((name for name in names if utf8_safe(name) != name), None)
    if odd is not None:
        return NotReady(
            what=f"{utf8_safe(odd)}, which {INCLUDE_FILE} names, cannot be copied: its name is not UTF-8",
            fix=f"rename it, or take it out of {INCLUDE_FILE}",
        )
    if problem := await asyncio.to_thread(_too_much, root, names):
        return problem
    environments = cache / ENVIRONMENTS
    new = environments / f"files-{hash_lines([str(root)])}"
    async with FileLock(new.with_name(f"{new.name}.lock"), timeout_s=LOCK_TIMEOUT_S):
        try:
            await asyncio.to_thread(_make_folder, new)
            for name in names:
                await copy_beneath(ContainedPath(root, name), ContainedPath(new, f"files/{name}"))
        except OSError as error:
            delete_path(new)
            return NotReady(
                what=f"{error.filename}, which {INCLUDE_FILE} names, cannot be copied: {error.strerror}",
                fix=f"make it readable, or take it out of {INCLUDE_FILE}",
            )
        folder = environments / f"{prefix}{await asyncio.to_thread(_content_hash, new, names)}"
        if load_record(folder) is None or not all(_is_file(folder / "files", name) for name in names):
            write_record(new, GoldenRecord(str(root), tuple(names)))
            delete_path(folder)
            new.rename(folder)
            await asyncio.to_thread(forget_unused, folder)
        else:
            delete_path(new)
    return tuple(CopiedFile(source=str(folder / "files" / name), target=name) for name in names)


def kept_snapshots(cache: Path) -> tuple[Path, ...]:
    """Return the folders with the files of each snapshot.

    Worktrees may have copies, secrets among them, although the user has changed the originals since.
    """
    return tuple(sorted((cache / ENVIRONMENTS).glob(f"{SNAPSHOT}*/files")))


def _file_name(path: str) -> str:
    return path.rpartition("/")[2]


def _is_file(top: Path, name: str) -> bool:
    try:
        return stat.S_ISREG((top / name).lstat().st_mode)
    except OSError:
        return False


def _too_much(root: Path, names: Sequence[str]) -> NotReady | None:
    size = sum((root / name).lstat().st_size for name in names if _is_file(root, name))
    if len(names) <= MAX_FILES and size <= MAX_BYTES:
        return None
    return NotReady(
        what=f"{INCLUDE_FILE} names {count_of(len(names), 'file')} with {size // 1_000_000} MB in all, "
        f"more than {MAX_FILES:,} files or {MAX_BYTES >> 30} GiB",
        fix=f"name fewer files in {INCLUDE_FILE}",
    )


def _make_folder(new: Path) -> None:
    delete_path(new)  # left by an interrupted snapshot
    new.parent.mkdir(parents=True, exist_ok=True)
    new.mkdir(mode=0o700)


def _content_hash(folder: Path, names: Sequence[str]) -> str:
    # Hash the copies, because the originals may change meanwhile.
    lines = []
    for name in names:
        kept = folder / "files" / name
        with kept.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        lines.append(f"{name}\0{stat.S_IMODE(os.lstat(kept).st_mode):o}\0{digest}")
    return hash_lines(lines)
