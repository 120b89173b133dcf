"""Turn off the programs that config makes git run: filters, merge drivers, transports. Only git-lfs is trusted.

Git has no switch for all of them, so they are found by name in the effective config and overridden.
"""

import contextlib
import os
import shlex
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

HARMLESS_COMMANDS = frozenset({
    *("cat-file", "check-ignore", "clean", "commit-tree", "config", "diff-tree", "for-each-ref", "ls-files", "ls-tree"),
    *("merge-base", "rev-list", "rev-parse", "symbolic-ref", "update-ref", "var", "version", "worktree"),
})  # fmt: skip
"""Commands that run no filter or driver with the options we pass."""

TEXT_MERGE = "git merge-file --marker-size=%L %A %O %B"
"""Git's built-in text merge, written as a merge driver."""
LFS_PROGRAMS = ("lfs.customtransfer.", "lfs.extension.", "lfs.standalonetransferagent")
"""Settings that make git-lfs run programs that the repository chooses."""
STATE_CONDITIONS = ("includeif.onbranch:", "includeif.hasconfig:")
"""Include conditions whose result can change although no config file changes."""

Setting = tuple[str, str]
FileStamp = tuple[int, int, int] | None


class ConfigEntry(Struct, frozen=True):
    """One setting; section and key are in lower case, `file` is None if it comes from the environment or `-c`."""

    name: str
    value: str
    file: Path | None


class DisabledPrograms(Struct, frozen=True):
    """The settings of one directory, and overrides for them; valid until a config file changes."""

    settings: tuple[Setting, ...]
    entries: tuple[ConfigEntry, ...]
    """All settings of the directory."""
    stamps: Mapping[Path, FileStamp]
    """The stamps of all config files at the time of reading."""
    lasting: bool
    """False if the config can change without a change of these files, so it must be read again each time."""

    @property
    def current(self) -> bool:
        """Whether the config is unchanged since it was read."""
        return self.lasting and is_unchanged(self.stamps)


def disable_programs(listing: bytes, cwd: Path, path: str, *, git_dir: Path | None = None) -> DisabledPrograms:
    """Return the overrides that turn off every program in `listing` (`git config --list --show-origin -z` in `cwd`).

    `path` is the PATH in which git-lfs is searched; with `git_dir`, `.git` in `cwd` is ignored. A `required` filter
    that is turned off fails, on purpose.
    """
    origins = tuple(config_entries(listing, cwd))
    names = {origin.name for origin in origins}
    files = {origin.file for origin in origins if origin.file} | {
        *included_files(origins),
        *_worktree_config(cwd, git_dir),
    }
    lasting = not any(name.startswith(STATE_CONDITIONS) for name in names)
    stamps = {file: file_stamp(file) for file in files}
    return DisabledPrograms(tuple(_override_settings(names, path)), origins, stamps, lasting)


def file_stamp(path: Path) -> FileStamp:
    """Return inode, ctime and size, which change whenever the file does; None if the file is missing."""
    try:
        found = path.stat()
    except OSError:
        return None
    # Not mtime, which every program can set to an earlier value.
    return found.st_ino, found.st_ctime_ns, found.st_size


def is_unchanged(stamps: Mapping[Path, FileStamp]) -> bool:
    """Return whether each file still has its stamp."""
    return all(file_stamp(path) == before for path, before in stamps.items())


def _override_settings(names: set[str], path: str) -> Iterator[Setting]:
    lfs = None if any(name.startswith(LFS_PROGRAMS) for name in names) else shutil.which("git-lfs", path=path)
    # `filter.a.b.clean` is the key `clean` of the section `filter` and its subsection `a.b`.
    parts = [each.partition(".")[::2] for each in names]
    for section, name in sorted({(section, rest.rpartition(".")[0]) for section, rest in parts}):
        # `which` returns a relative path for a relative folder on PATH, which may be the checkout.
        if section == "filter" and name == "lfs" and lfs and Path(lfs).is_absolute():
            # Our own commands, because the configured `lfs` filter may be another program.
            program = shlex.quote(lfs)
            yield "filter.lfs.process", f"{program} filter-process"
            yield "filter.lfs.clean", f"{program} clean -- %f"
            yield "filter.lfs.smudge", f"{program} smudge -- %f"
            yield "filter.lfs.required", "true"
        # An empty command makes git pass the contents on unchanged, unless the filter is `required`.
        elif section == "filter":
            yield from ((f"filter.{name}.{key}", "") for key in ("process", "clean", "smudge"))
        elif section == "merge" and f"merge.{name}.driver" in names:
            yield f"merge.{name}.driver", TEXT_MERGE
        elif section == "hook" and name:  # git 2.54 and later also runs hooks named in the config
            yield f"hook.{name}.enabled", "false"


def config_entries(listing: bytes, cwd: Path) -> Iterator[ConfigEntry]:
    """Yield the settings in the output of `git config --list --show-origin -z` in `cwd`."""
    parts = [os.fsdecode(part) for part in listing.split(b"\0")[:-1]]
    for origin, entry in zip(parts[::2], parts[1::2], strict=True):
        kind, _, file = origin.partition(":")
        name, _, value = entry.partition("\n")
        yield ConfigEntry(name, value, cwd / file if kind == "file" else None)


def included_files(origins: tuple[ConfigEntry, ...]) -> Iterator[Path]:
    """Yield every included config file, empty and missing ones too."""
    for origin in origins:
        if origin.name.startswith(("include.", "includeif.")) and origin.name.endswith(".path") and origin.file:
            yield origin.file.parent / expanded(origin.value)


def expanded(path: str) -> Path:
    """Return a path from a setting with `~` expanded; unchanged if the user is unknown."""
    with contextlib.suppress(RuntimeError):
        return Path(path).expanduser()
    return Path(path)


def _worktree_config(cwd: Path, git_dir: Path | None) -> tuple[Path, ...]:
    if git_dir is not None:
        return (git_dir / "config.worktree",)
    pointer = cwd / ".git"
    if not pointer.is_file():
        return (pointer / "config.worktree",)
    target = os.fsdecode(pointer.read_bytes()).removeprefix("gitdir: ").rstrip("\n")
    return pointer, cwd / target / "config.worktree"
