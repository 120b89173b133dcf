"""Checkouts furnished: each gets a copy of its own of what was prepared, and nothing in it names another checkout."""

import asyncio
import hashlib
import os
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from scaffold.core.errors import ScaffoldError
from scaffold.core.gates import CheckEnvironment, Copied
from scaffold.git.worktree import delete
from scaffold.host.copying import copy_tree
from scaffold.host.files import write_atomic
from scaffold.verify.environment.moving import led, mend

IGNORED = "*\n"
"""For a .gitignore in a copied folder: whatever the repository says, it is nobody's work."""
WORKSHOP = "furnishing"
"""Beside the golden environments: where copies are made, and what is known of them; nobody else looks there."""


async def furnish(environment: CheckEnvironment | None, top: Path) -> None:
    """Put what was prepared into the checkout at `top`, where it is not there already.

    Whether that is as it was is not looked at: clean the checkout before, if somebody worked in it. A folder that the
    checkout has no place for any more is left out. ScaffoldError if what was prepared is gone.
    """
    for copied in environment.copies if environment else ():
        if _has_room(top, copied.target):
            await _copy(copied, top)
            await asyncio.to_thread(_note, copied, top)


@asynccontextmanager
async def furnished_anew(environment: CheckEnvironment | None, top: Path) -> AsyncIterator[None]:
    """Furnish the checkout at `top` after the block has made it new; copies that nobody has changed are kept.

    It is the clock of the file system that tells: no command can set the time at which a file was last changed.
    """
    copies = environment.copies if environment else ()
    kept = await asyncio.to_thread(_set_aside, copies, top)
    try:
        yield
        for copied in kept:
            if _has_room(top, copied.target):
                _place(copied, top, "kept").rename(top / copied.target)
                await asyncio.to_thread(_note, copied, top)
    finally:
        for copied in kept:
            await asyncio.to_thread(delete, _place(copied, top, "kept"))
    await furnish(environment, top)


def _set_aside(copies: tuple[Copied, ...], top: Path) -> list[Copied]:
    """Move the copies that are as they were made out of the checkout; return which."""
    kept = [copied for copied in copies if _noted(copied, top) == _state(top, copied.target)]
    for copied in kept:
        aside = _place(copied, top, "kept")
        delete(aside)
        (top / copied.target).rename(aside)
    return kept


def _note(copied: Copied, top: Path) -> None:
    """Write down how a copy is that was just put into the checkout."""
    write_atomic(_place(copied, top, "note"), (_state(top, copied.target) or "").encode())


def _noted(copied: Copied, top: Path) -> str:
    try:
        return _place(copied, top, "note").read_text("ascii")
    except OSError:
        return ""


def _place(copied: Copied, top: Path, what: str) -> Path:
    """Return where something of the copy in one checkout is kept, on the file system of the golden environments."""
    environments = Path(copied.source.removesuffix(copied.target)).parents[1]
    name = hashlib.sha256(os.fsencode(top / copied.target)).hexdigest()[:32]
    return environments / WORKSHOP / f"{name}.{what}"


def _state(top: Path, target: str) -> str | None:
    """Return what is another text as soon as anything in a copy was changed; None for what is no copy of ours."""
    if not all(_is_folder(top / each) for each in (Path(target), *Path(target).parents)):
        return None
    lines = hashlib.sha256()
    for line in _lines(str(top / target)):
        lines.update(line.encode(errors="surrogateescape"))
    return lines.hexdigest()


def _lines(folder: str) -> Iterator[str]:
    yield _line(folder, os.lstat(folder))
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_dir(follow_symlinks=False):
                yield from _lines(entry.path)
            else:
                yield _line(entry.path, entry.stat(follow_symlinks=False))


def _line(path: str, found: os.stat_result) -> str:
    return f"{path}\0{found.st_ino}\0{found.st_ctime_ns}\0{found.st_size}\n"


async def _copy(copied: Copied, top: Path) -> None:
    staged = _place(copied, top, "new")
    staged.parent.mkdir(parents=True, exist_ok=True)
    await asyncio.to_thread(delete, staged)
    try:
        await _stage(copied, top, staged)
        staged.rename(top / copied.target)
    except FileNotFoundError as error:
        raise ScaffoldError(
            f"{error.filename} is gone, which checks stand on",
            "`scaffold baseline reset` forgets it, then `scaffold resume` prepares it anew",
        ) from error
    finally:
        await asyncio.to_thread(delete, staged)


async def _stage(copied: Copied, top: Path, staged: Path) -> None:
    """Make the copy elsewhere: what is in the checkout is whole, or not there."""
    redirect = partial(led, copied.made_for, str(top), copied.target, copied.source)
    await copy_tree(Path(copied.source), staged, led=redirect)
    await asyncio.to_thread(_settle, staged, copied.made_for, str(top))


def _settle(staged: Path, made_for: str, top: str) -> None:
    mend(staged, made_for, top)
    ignore = staged / ".gitignore"
    if staged.is_dir() and not ignore.exists():
        ignore.write_text(IGNORED)


def _has_room(top: Path, target: str) -> bool:
    """Whether the folder that `target` belongs to is there, a folder of the checkout itself, and lacks it.

    A link on the way would have us write wherever it leads.
    """
    if os.path.lexists(top / target):
        return False
    return all(_is_folder(top / each) for each in Path(target).parents)


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False
