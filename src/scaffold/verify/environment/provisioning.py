"""Provision checkouts: each gets its own copy of the prepared dependencies, with paths adjusted to it."""

import asyncio
import hashlib
import os
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from itertools import product
from pathlib import Path

from scaffold.core.errors import ScaffoldError
from scaffold.core.proof.gates import CheckEnvironment, CopiedFile, CopiedFolder
from scaffold.host.atomic_files import delete_path, write_atomic
from scaffold.host.tree_copy import copy_tree
from scaffold.verify.environment.relocation import relocate_copy, relocated_link

IGNORE_ALL = "*\n"
"""The .gitignore of a copied folder: it is never part of the work, whatever the repository ignores."""
STAGING_FOLDER = "staging"
"""The folder next to the golden environments for unfinished copies and the recorded states of copies."""


async def provision_checkout(environment: CheckEnvironment | None, top: Path) -> None:
    """Copy the prepared dependencies and files into the checkout at `top`, unless they already exist there.

    Existing ones are not verified: clean a used checkout first. A folder whose parent folder no longer exists is
    skipped. ScaffoldError if a prepared folder or file is missing.
    """
    for copied in environment.copies if environment else ():
        if _has_room(top, copied.target):
            await _copy_folder(copied, top)
            await asyncio.to_thread(_record_copy_state, copied, top)
    for file in (*environment.files, *environment.built) if environment else ():
        if _make_room(top, file.target):
            await _put_copy(file, top, partial(copy_tree, Path(file.source)))


@asynccontextmanager
async def reprovision(environment: CheckEnvironment | None, top: Path) -> AsyncIterator[None]:
    """Provision the checkout at `top` again after the block has reset it; unchanged copies are kept.

    A changed copy is recognised by ctimes, which no command can set.
    """
    copies = environment.copies if environment else ()
    kept = await asyncio.to_thread(_set_aside, copies, top)
    try:
        yield
        for copied in kept:
            if _has_room(top, copied.target):
                _copy_record_path(copied, top, "kept").rename(top / copied.target)
                await asyncio.to_thread(_record_copy_state, copied, top)
    finally:
        for copied in kept:
            await asyncio.to_thread(delete_path, _copy_record_path(copied, top, "kept"))
    await provision_checkout(environment, top)


def forget_copies(environment: CheckEnvironment | None, tops: Iterable[Path]) -> None:
    """Delete what is kept outside of the checkouts `tops`, which are gone, about the copies in them."""
    copies = environment.copies if environment else ()
    for copied, top in product(copies, tops):
        for what in ("kept", "note"):
            delete_path(_copy_record_path(copied, top, what))


def provisions_unchanged(environment: CheckEnvironment | None, top: Path) -> bool:
    """Return True if all copies in the checkout at `top` are as they were put there."""
    copies = environment.copies if environment else ()
    files = (*environment.files, *environment.built) if environment else ()
    return all(_recorded_copy_state(each, top) == (_copy_state(top, each) or "") for each in copies) and all(
        _same_content(Path(each.source), top / each.target) for each in files
    )


def _same_content(source: Path, copy: Path) -> bool:
    try:
        return not copy.is_symlink() and copy.read_bytes() == source.read_bytes()
    except OSError:
        return False


def _set_aside(copies: tuple[CopiedFolder, ...], top: Path) -> list[CopiedFolder]:
    """Move the unchanged copies out of the checkout and return them."""
    kept = [copied for copied in copies if _recorded_copy_state(copied, top) == _copy_state(top, copied)]
    for copied in kept:
        aside = _copy_record_path(copied, top, "kept")
        delete_path(aside)
        (top / copied.target).rename(aside)
    return kept


def _record_copy_state(copied: CopiedFolder, top: Path) -> None:
    """Record the state of a copy that was just put into the checkout."""
    write_atomic(_copy_record_path(copied, top, "note"), (_copy_state(top, copied) or "").encode())


def _recorded_copy_state(copied: CopiedFolder, top: Path) -> str:
    try:
        return _copy_record_path(copied, top, "note").read_text("ascii")
    except OSError:
        return ""


def _copy_record_path(copied: CopiedFolder | CopiedFile, top: Path, what: str) -> Path:
    """Return the path of a copy's record or temporary folder, on the file system of the golden environments."""
    environments = Path(copied.source.removesuffix(copied.target)).parents[1]
    name = hashlib.sha256(os.fsencode(top / copied.target)).hexdigest()[:32]
    # A rename works only within one file system, and the checkout must not contain what git would report as untracked.
    return environments / STAGING_FOLDER / f"{name}.{what}"


def _copy_state(top: Path, copied: CopiedFolder) -> str | None:
    """Return a hash that changes with the original and with any change in its copy.

    None if the target or a parent is no real folder.
    """
    target = copied.target
    # A link here would let an agent choose which folder is moved aside and put back.
    if not all(_is_folder(top / each) for each in (Path(target), *Path(target).parents)):
        return None
    lines = hashlib.sha256(os.fsencode(copied.source))
    for line in _file_states(str(top / target)):
        lines.update(line.encode(errors="surrogateescape"))
    return lines.hexdigest()


def _file_states(folder: str) -> Iterator[str]:
    yield _file_state(folder, os.lstat(folder))
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_dir(follow_symlinks=False):
                yield from _file_states(entry.path)
            else:
                yield _file_state(entry.path, entry.stat(follow_symlinks=False))


def _file_state(path: str, found: os.stat_result) -> str:
    return f"{path}\0{found.st_ino}\0{found.st_ctime_ns}\0{found.st_size}\n"


async def _copy_folder(copied: CopiedFolder, top: Path) -> None:
    await _put_copy(copied, top, partial(_stage_copy, copied, top))


async def _put_copy(copied: CopiedFolder | CopiedFile, top: Path, stage: Callable[[Path], Awaitable[None]]) -> None:
    """Put a copy into the checkout, complete or not at all; `stage` makes it at the path it is given."""
    staged = _copy_record_path(copied, top, "new")
    staged.parent.mkdir(parents=True, exist_ok=True)
    await asyncio.to_thread(delete_path, staged)
    try:
        await stage(staged)
        staged.rename(top / copied.target)
    except FileNotFoundError as error:
        raise ScaffoldError(
            f"{error.filename} is missing, but checks need it",
            "run `scaffold baseline reset`, then `scaffold resume` to prepare it again",
        ) from error
    finally:
        await asyncio.to_thread(delete_path, staged)


async def _stage_copy(copied: CopiedFolder, top: Path, staged: Path) -> None:
    """Make the copy with its links and paths adjusted to the checkout."""
    redirect = partial(relocated_link, copied.made_for, str(top), copied.target, copied.source)
    await copy_tree(Path(copied.source), staged, led=redirect)
    await asyncio.to_thread(_relocate_copy, staged, copied.made_for, str(top))


def _relocate_copy(staged: Path, made_for: str, top: str) -> None:
    relocate_copy(staged, made_for, top)
    ignore = staged / ".gitignore"
    if staged.is_dir() and not ignore.exists():
        ignore.write_text(IGNORE_ALL)


def _has_room(top: Path, target: str) -> bool:
    """Return True if `target` does not exist and its parents are real folders of the checkout.

    A symbolic link among the parents would redirect the write outside the checkout.
    """
    if os.path.lexists(top / target):
        return False
    return all(_is_folder(top / each) for each in Path(target).parents)


def _make_room(top: Path, target: str) -> bool:
    """Do the same as `_has_room`, but make parent folders that are missing: git keeps no empty folders."""
    for folder in reversed(Path(target).parents):
        if not os.path.lexists(top / folder):
            (top / folder).mkdir()
        elif not _is_folder(top / folder):
            return False
    return not os.path.lexists(top / target)


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False
