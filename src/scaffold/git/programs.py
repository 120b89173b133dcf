"""Programs that settings make git run: filters, merge drivers, transports. All are silenced; git-lfs alone is trusted.

Git has no switch for all of them, so they are found by name in the settings that apply, and overruled.
"""

import os
import shlex
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

HARMLESS = frozenset({
    *("cat-file", "clean", "commit-tree", "config", "diff-tree", "for-each-ref", "ls-files", "ls-tree", "merge-base"),
    *("rev-list", "rev-parse", "symbolic-ref", "update-ref", "var", "version", "worktree"),
})  # fmt: skip
"""Commands that run nobody's filter or driver, as we call them."""

FILTERS = ("process", "clean", "smudge")
TEXT_MERGE = "git merge-file --marker-size=%L %A %O %B"
"""What git does by itself, in the words of a driver."""
LFS_PROGRAMS = ("lfs.customtransfer.", "lfs.extension.", "lfs.standalonetransferagent")
"""Settings that make git-lfs run programs of the repository's choice."""
BY_STATE = ("includeif.onbranch:", "includeif.hasconfig:")
"""Conditions that may change although no file of settings does."""

Setting = tuple[str, str]
Stamp = tuple[int, int, int] | None


class Origin(Struct, frozen=True):
    """One setting, its name with section and key in lower case, and the file it stands in; None if in no file."""

    name: str
    value: str
    file: Path | None


class Silenced(Struct, frozen=True):
    """What overrules the settings of one directory, for as long as `stamps` of the files they stand in hold."""

    settings: tuple[Setting, ...]
    stamps: Mapping[Path, Stamp]
    lasting: bool

    @property
    def current(self) -> bool:
        """Whether the settings are still those that were read."""
        return self.lasting and all(stamp(path) == before for path, before in self.stamps.items())


def silence(listing: bytes, cwd: Path, path: str) -> Silenced:
    """Return what turns every program off that `listing` (of `git config --list --show-origin -z` in `cwd`) names.

    `path` is where programs are looked for. A filter that is `required` then fails, as it should.
    """
    origins = tuple(_origins(listing, cwd))
    names = {origin.name for origin in origins}
    files = {origin.file for origin in origins if origin.file} | {*_included(origins), *_private(cwd)}
    lasting = not any(name.startswith(BY_STATE) for name in names)
    return Silenced(tuple(_overruled(names, path)), {file: stamp(file) for file in files}, lasting)


def stamp(path: Path) -> Stamp:
    """Return what changes whenever the file does; None if there is no such file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns, found.st_size


def _overruled(names: set[str], path: str) -> Iterator[Setting]:
    lfs = None if any(name.startswith(LFS_PROGRAMS) for name in names) else shutil.which("git-lfs", path=path)
    for section, name in sorted({_subsection(each) for each in names}):
        if section == "filter" and name == "lfs" and lfs and Path(lfs).is_absolute():
            yield from _trusted(lfs)
        elif section == "filter":
            yield from ((f"filter.{name}.{key}", "") for key in FILTERS)
        elif section == "merge" and f"merge.{name}.driver" in names:
            yield f"merge.{name}.driver", TEXT_MERGE


def _trusted(lfs: str) -> Iterator[Setting]:
    """Say ourselves how git-lfs is called; what the settings call by that name may be something else."""
    program = shlex.quote(lfs)
    yield "filter.lfs.process", f"{program} filter-process"
    yield "filter.lfs.clean", f"{program} clean -- %f"
    yield "filter.lfs.smudge", f"{program} smudge -- %f"
    yield "filter.lfs.required", "true"


def _subsection(name: str) -> tuple[str, str]:
    """Return `("filter", "a.b")` for `filter.a.b.clean`; the second part is empty where there is none."""
    section, _, rest = name.partition(".")
    return section, rest.rpartition(".")[0]


def _origins(listing: bytes, cwd: Path) -> Iterator[Origin]:
    parts = [os.fsdecode(part) for part in listing.split(b"\0")[:-1]]
    for origin, entry in zip(parts[::2], parts[1::2], strict=True):
        kind, _, place = origin.partition(":")
        name, _, value = entry.partition("\n")
        yield Origin(name, value, cwd / place if kind == "file" else None)


def _included(origins: tuple[Origin, ...]) -> Iterator[Path]:
    """Name every file that is or would be included; those that say nothing, or are not there yet, too."""
    for origin in origins:
        if origin.name.startswith(("include.", "includeif.")) and origin.name.endswith(".path") and origin.file:
            yield origin.file.parent / Path(origin.value).expanduser()


def _private(cwd: Path) -> tuple[Path, ...]:
    """Return where a checkout's very own settings would stand."""
    pointer = cwd / ".git"
    if not pointer.is_file():
        return (pointer / "config.worktree",)
    target = os.fsdecode(pointer.read_bytes()).removeprefix("gitdir: ").rstrip("\n")
    return pointer, cwd / target / "config.worktree"
