"""A folder's own configuration: read once, and compared with what the user agreed to."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from scaffold.core.errors import StoreTrouble, UsageProblem
from scaffold.git.belonging import belonging
from scaffold.host.clock import SystemClock
from scaffold.host.dirs import user_dirs
from scaffold.host.sandbox.ground import is_stand_in
from scaffold.policy.trust import ACTIVE, LARGEST_BYTES, Folder, Piece, Standing, standing
from scaffold.store.user import UserStore, user_database
from scaffold.tools.regular import opened


def trusted_folder(start: Path, environ: Mapping[str, str], *, once: bool = False) -> Standing:
    """Return whether the configuration counts that the folder `start`, or the repository it is in, brings along.

    With `once` it does for this command; UsageProblem if a part of it cannot be read then.
    """
    folder = read_folder(start)
    if once:
        refuse_unfit(folder)
        return standing(folder, (), once=True)
    try:
        return standing(folder, agreed(folder, environ))
    except StoreTrouble as trouble:
        return Standing(folder, "unknown", trouble=trouble.what)


def read_folder(start: Path) -> Folder:
    """Return the configuration of the folder, or of the repository it is in; UsageProblem if there is no folder."""
    start = start.absolute()  # of a current directory that is gone the caller is told
    try:
        place = belonging(start)
        if not place.top.is_dir():
            raise NotADirectoryError(start)
    except (OSError, RuntimeError) as error:
        raise UsageProblem(f"there is no folder {start}", "Name one that is there.") from error
    pieces = (_piece(place.top, name) for name in ACTIVE)
    return Folder(place.top, place.kin.as_uri(), tuple(piece for piece in pieces if piece is not None))


def agreed(folder: Folder, environ: Mapping[str, str]) -> tuple[Mapping[str, str], ...]:
    """Return what was agreed to for the folder's repository, the latest last; StoreTrouble if nobody can tell."""
    path = user_database(user_dirs(environ).data)
    if not path.exists():
        return ()
    store = UserStore.open(path, clock=SystemClock(), create=False)
    try:
        return tuple(each.files for each in store.trust.agreed(folder.identity))
    finally:
        store.close()


def refuse_unfit(folder: Folder) -> None:
    """Raise UsageProblem if a part of the configuration cannot be read: nobody can agree to that."""
    for piece in folder.unfit:
        what = f"{folder.top / piece.name} cannot be trusted: it {piece.trouble}"
        raise UsageProblem(what, "Make it an ordinary file, or move it away.")


def _piece(top: Path, name: str) -> Piece | None:
    """Return a file of the configuration as it is now, None if there is none of this name."""
    path = top / name
    if not os.path.lexists(path) or is_stand_in(path):
        return None
    try:
        place = path.resolve(strict=True)
        if not place.is_relative_to(top):
            return Piece(name, trouble="is a link that leads out of the folder")
        return _read(top, place, name)
    except FileNotFoundError:
        return Piece(name, trouble="is a link that leads nowhere")
    except (OSError, RuntimeError) as error:
        return Piece(name, trouble=f"cannot be read ({getattr(error, 'strerror', None) or 'a loop of links'})")


def _read(top: Path, place: Path, name: str) -> Piece:
    with opened(top, place, os.O_RDONLY) as fd:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return Piece(name, trouble="is no ordinary file")
        with os.fdopen(os.dup(fd), "rb") as file:
            content = file.read(LARGEST_BYTES + 1)
    if len(content) > LARGEST_BYTES:
        return Piece(name, trouble=f"is larger than {LARGEST_BYTES // 1_000_000} MB")
    return Piece(name, content)
