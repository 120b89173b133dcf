"""A folder's own configuration: read once, and compared with what the user agreed to."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from scaffold.core.errors import StoreError, UsageError
from scaffold.git.discovery import locate_checkout
from scaffold.host.clock import SystemClock
from scaffold.host.sandbox.mounts import is_placeholder
from scaffold.host.user_dirs import user_dirs
from scaffold.policy.trust import ACTIVE_FILES, MAX_BYTES, FolderConfig, TrustFile, TrustStatus, trust_status
from scaffold.store.user_store import UserStore, user_database
from scaffold.tools.file.safe_open import open_file


def folder_trust(start: Path, environ: Mapping[str, str], *, once: bool = False) -> TrustStatus:
    """Return whether the configuration counts that the folder `start`, or the repository it is in, brings along.

    With `once` it does for this command; UsageProblem if a part of it cannot be read then.
    """
    folder = read_folder(start)
    if once:
        require_readable(folder)
        return trust_status(folder, (), once=True)
    try:
        return trust_status(folder, trusted_versions(folder, environ))
    except StoreError as trouble:
        return TrustStatus(folder, "unknown", trouble=trouble.what)


def read_folder(start: Path) -> FolderConfig:
    """Return the configuration of the folder, or of the repository it is in; UsageProblem if there is no folder."""
    start = start.absolute()  # of a current directory that is gone the caller is told
    try:
        place = locate_checkout(start)
        if not place.top.is_dir():
            raise NotADirectoryError(start)
    except (OSError, RuntimeError) as error:
        raise UsageError(f"there is no folder {start}", "Name one that is there.") from error
    pieces = (_piece(place.top, name) for name in ACTIVE_FILES)
    return FolderConfig(place.top, place.common_dir.as_uri(), tuple(piece for piece in pieces if piece is not None))


def trusted_versions(folder: FolderConfig, environ: Mapping[str, str]) -> tuple[Mapping[str, str], ...]:
    """Return what was agreed to for the folder's repository, the latest last; StoreTrouble if nobody can tell."""
    path = user_database(user_dirs(environ).data)
    if not path.exists():
        return ()
    store = UserStore.open(path, clock=SystemClock(), create=False)
    try:
        return tuple(each.files for each in store.trust.agreed(folder.identity))
    finally:
        store.close()


def require_readable(folder: FolderConfig) -> None:
    """Raise UsageProblem if a part of the configuration cannot be read: nobody can agree to that."""
    for piece in folder.unreadable_files:
        what = f"{folder.top / piece.name} cannot be trusted: it {piece.trouble}"
        raise UsageError(what, "Make it an ordinary file, or move it away.")


def _piece(top: Path, name: str) -> TrustFile | None:
    """Return a file of the configuration as it is now, None if there is none of this name."""
    path = top / name
    if not os.path.lexists(path) or is_placeholder(path):
        return None
    try:
        place = path.resolve(strict=True)
        if not place.is_relative_to(top):
            return TrustFile(name, trouble="is a link that leads out of the folder")
        return _read(top, place, name)
    except FileNotFoundError:
        return TrustFile(name, trouble="is a link that leads nowhere")
    except (OSError, RuntimeError) as error:
        return TrustFile(name, trouble=f"cannot be read ({getattr(error, 'strerror', None) or 'a loop of links'})")


def _read(top: Path, place: Path, name: str) -> TrustFile:
    with open_file(top, place, os.O_RDONLY) as fd:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return TrustFile(name, trouble="is no ordinary file")
        with os.fdopen(os.dup(fd), "rb") as file:
            content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        return TrustFile(name, trouble=f"is larger than {MAX_BYTES // 1_000_000} MB")
    return TrustFile(name, content)
