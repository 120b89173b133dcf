"""A folder's own configuration, with the files that agents read or run: read once, and compared to what is trusted."""

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import closing
from itertools import islice
from pathlib import Path

from scaffold.agent.prompts import Notice, ignore_notice
from scaffold.core.errors import StoreError, UsageError
from scaffold.git.checkouts.worktree_metadata import locate_checkout
from scaffold.host.clock import SystemClock
from scaffold.host.sandbox.mounts import is_placeholder
from scaffold.host.startup import importing
from scaffold.host.user_dirs import user_dirs
from scaffold.policy.trust_decision import (
    ACTIVE_FILES,
    COMMAND_FOLDER,
    HOOK_FILES,
    MAX_BYTES,
    ROLE_FOLDER,
    SCRIPT_FOLDER,
    SKILL_FILE,
    SKILL_FOLDERS,
    FolderConfig,
    TrustFile,
    TrustStatus,
    trust_status,
)
from scaffold.store.user_store import UserStore, user_database
from scaffold.tools.content.safe_open import open_file

PROMPTS = "prompts"
PROJECT_PROMPTS = f".scaffold/{PROMPTS}"
IGNORE_FILE = ".scaffold/.gitignore"
IGNORED = f"*\n!/{PROMPTS}/\n!/{PROMPTS}/*.md\n".encode()
"""What makes git ignore our folder in a repository, except prompts."""
MAX_TOTAL_BYTES = 32_000_000
"""Bytes of all files of a folder's configuration."""
CLAUDE_FOLDER = ".claude"
HOOK_SETTINGS = (f"{CLAUDE_FOLDER}/settings.json", f"{CLAUDE_FOLDER}/settings.local.json")
HOOKS_FILE = "hooks.json"
"""The user's own hooks, in the configuration directory."""
MAX_FILES = 1_000
"""Files of each folder; further ones have no effect."""
MAX_DEPTH = 6


def folder_trust(start: Path, *, once: bool = False) -> TrustStatus:
    """Return whether the user trusts the configuration of the folder `start`, or of the repository that contains it.

    With `once` it is trusted for this command; raise UsageError if a file of it cannot be read.
    """
    folder = read_folder(start)
    if once:
        require_readable(folder)
        return trust_status(folder, (), once=True)
    try:
        return trust_status(folder, trusted_versions(folder))
    except StoreError as error:
        return TrustStatus(folder, "unknown", problem=error.what)


def read_folder(start: Path) -> FolderConfig:
    """Return the configuration of the folder, or of the repository that contains it; raise UsageError without one."""
    start = start.absolute()  # raises if the current directory was removed, which the caller reports
    try:
        place = locate_checkout(start)
        if not place.top.is_dir():
            raise NotADirectoryError(start)
    except (OSError, RuntimeError) as error:
        raise UsageError(f"there is no folder {start}", "Name an existing folder.") from error
    return FolderConfig(place.top, place.common_dir.as_uri(), tuple(_trust_files(place.top)))


def trusted_versions(folder: FolderConfig) -> tuple[Mapping[str, str], ...]:
    """Return the trusted versions of the repository's files, the latest last; raise StoreError if unreadable."""
    path = user_database(user_dirs().data)
    if not path.exists():
        return ()
    # Looking at trust creates nothing: a command that only reads must not leave a database behind.
    store = UserStore.open(path, clock=SystemClock(), create=False)
    try:
        return tuple(each.files for each in store.trust.agreed(folder.identity))
    finally:
        store.close()


def trust_folder(folder: FolderConfig) -> None:
    """Store that the user trusts these files with these contents."""
    store = UserStore.open(user_database(user_dirs().data), clock=SystemClock())
    with closing(store), store.transaction(durable=True):
        store.trust.agree(folder.identity, folder.fingerprint, folder.digests)


def require_readable(folder: FolderConfig) -> None:
    """Raise UsageError if a file of the configuration cannot be read: content that is not shown cannot be trusted."""
    for piece in folder.unreadable_files:
        what = f"{folder.top / piece.name} cannot be trusted: it {piece.problem}"
        raise UsageError(what, "Make it a regular file, or move it away.")


def prompt_folders(start: Path, *, trust_once: bool = False, notice: Notice = ignore_notice) -> tuple[str, ...]:
    """Return the absolute paths of the folders with `ROLE.md` files that apply to `start`; the first match wins.

    `notice` receives a line if the project has such a folder and it is ignored.
    """
    project = _project_prompts(folder_trust(start, once=trust_once), notice)
    user = user_dirs().config / PROMPTS
    return tuple(str(folder) for folder in (project, user) if folder is not None and folder.is_dir())


def _project_prompts(status: TrustStatus, notice: Notice) -> Path | None:
    """Return the project's folder of prompts; None if it is missing, untrusted, or a link out of the project."""
    top = status.folder.top
    folder = top / PROJECT_PROMPTS
    if not folder.is_dir():
        return None
    if not status.trusted:
        notice(f"{PROJECT_PROMPTS} ignored: {status.reason}; `scaffold trust` trusts it.")
        return None
    if not folder.resolve().is_relative_to(top.resolve()):
        notice(f"{PROJECT_PROMPTS} ignored: it is a link that points outside the folder.")
        return None
    return folder


def _trust_files(top: Path) -> Iterator[TrustFile]:
    size, seen = 0, dict[str, TrustFile]()
    for name in _file_names(top, seen):
        if name in seen:
            continue
        piece = _current_file(top, name)
        if piece is not None:
            size += len(piece.content)
            # A user does not read so much before accepting it, and it would be read again with each start.
            seen[name] = (
                piece
                if size <= MAX_TOTAL_BYTES
                else TrustFile(name, problem="makes the configuration too large to look through")
            )
            yield seen[name]


def _file_names(top: Path, seen: Mapping[str, TrustFile]) -> Iterator[str]:
    """Yield the names of possible configuration files; `seen` are the files read meanwhile."""
    yield from ACTIVE_FILES
    # Not every match is a file: a folder may be named like a hook, but a link to one is the project's to change.
    for path in (path for pattern in HOOK_FILES for path in sorted(top.glob(pattern))):
        if path.is_symlink() or not path.is_dir():
            yield str(path.relative_to(top))
    yield from extension_files(top)
    settings = (seen[name].content for name in HOOK_SETTINGS if name in seen)
    yield from named_script_files(top, settings)


def _current_file(top: Path, name: str) -> TrustFile | None:
    path = top / name
    # While a sandboxed command runs, a socket stands in place of a missing file; it is no configuration.
    if not os.path.lexists(path) or is_placeholder(path):
        return None
    try:
        # A link out of the folder could be changed without anything in the folder changing.
        place = path.resolve(strict=True)
        if not place.is_relative_to(top):
            return TrustFile(name, problem="is a link that points outside the folder")
        return _read_file(top, place, name)
    except FileNotFoundError:
        return TrustFile(name, problem="is a broken link")
    except (OSError, RuntimeError) as error:
        return TrustFile(name, problem=f"cannot be read ({getattr(error, 'strerror', None) or 'a loop of links'})")


def _read_file(top: Path, place: Path, name: str) -> TrustFile:
    # The bytes that are hashed are the bytes that are parsed: the file is read once, by its descriptor.
    with open_file(top, place, os.O_RDONLY) as fd:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return TrustFile(name, problem="is not a regular file")
        with os.fdopen(os.dup(fd), "rb") as file:
            content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        return TrustFile(name, problem=f"is larger than {MAX_BYTES // 1_000_000} MB")
    return TrustFile(name, content)


def extension_files(top: Path) -> Iterator[str]:
    """Yield the paths, relative to `top`, of its skills, roles, commands and files of hooks, in a fixed order."""
    if (top / ".claude").is_dir():
        yield from islice(_files_below(top, SCRIPT_FOLDER), MAX_FILES)
        for folder in (ROLE_FOLDER, COMMAND_FOLDER):
            yield from markdown_files(top, folder)
    for folder in SKILL_FOLDERS:
        yield from skill_files(top, folder)


def skill_files(top: Path, folder: str) -> Iterator[str]:
    """Yield the paths, relative to `top`, of the skills in one of its folders."""
    for name in _folder_names(top / folder):
        if os.path.lexists(top / folder / name / SKILL_FILE):
            yield f"{folder}/{name}/{SKILL_FILE}"


def markdown_files(top: Path, folder: str) -> Iterator[str]:
    """Yield the paths, relative to `top`, of the Markdown files below one of its folders."""
    yield from (name for name in islice(_files_below(top, folder), MAX_FILES) if name.endswith(".md"))


def named_script_files(top: Path, contents: Iterator[bytes]) -> Iterator[str]:
    """Yield the paths, relative to `top`, of existing files that hooks in these settings run."""
    for content in contents:
        # Most settings have no hooks.
        if b"hooks" not in content:
            continue
        with importing():
            from scaffold.extensions.hooks.hook_settings import script_names
        for name in script_names(content, home=str(Path.home()), top=str(top)):
            if (top / name).is_file():
                yield name


def _files_below(top: Path, folder: str, depth: int = 0) -> Iterator[str]:
    """Yield the files below a folder, sorted, down to MAX_DEPTH levels."""
    for name in _folder_names(top / folder):
        path = f"{folder}/{name}"
        if (top / path).is_dir():
            # A link to a folder above would never end.
            if depth < MAX_DEPTH and name != ".git":
                yield from _files_below(top, path, depth + 1)
        else:
            yield path


def _folder_names(folder: Path) -> list[str]:
    """Return the sorted names in a folder; none if it is unreadable."""
    try:
        return sorted(os.listdir(folder))[:MAX_FILES]  # noqa: PTH208 - names, quickly
    except OSError:
        return []
