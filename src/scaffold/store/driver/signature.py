"""Whose a database is: its signatures are made with a key that only its user has.

They are bound to the place of the file, or else whoever once received a database could edit it and give it back.
"""

import hmac
import os
from contextlib import suppress
from pathlib import Path
from typing import Literal

from scaffold.core.errors import ForeignState, StoreError
from scaffold.host.user_dirs import user_dirs
from scaffold.store.driver.connection import Connection
from scaffold.store.driver.location import StoreLocation

ForeignUse = Literal["refuse", "show", "adopt"]
"""What becomes of a database that someone else made: it is not opened | it is only read | from now on it is ours."""
TABLE = "state_signature"
SIGNED = "SELECT digest FROM state_signature WHERE digest IN (:one, :other)"
SIGN = "INSERT INTO state_signature (digest) VALUES (:digest) ON CONFLICT DO NOTHING"
KEY_BYTES = 32
RESTORE = "Restore it, or remove it and adopt your states again: `scaffold trust --state`."


def is_own(connection: Connection, place: StoreLocation, tables: frozenset[str]) -> bool:
    """Return whether this user has made the database at `place`, or has adopted it."""
    wanted = _own_digests(place, _read_key()) if TABLE in tables else ()
    if not wanted:
        return False
    # Compared once more: whoever made the database can have made a view of this name, whose rows are of any kind.
    return any(row["digest"] in wanted for row in connection.rows(SIGNED, one=wanted[0], other=wanted[-1]))


def sign(connection: Connection, place: StoreLocation) -> None:
    """Sign the database as this user's; makes the user's key if there is none yet. Needs a transaction."""
    digests = _own_digests(place, _read_key() or _make_key())
    if not digests:
        raise _unusable_key(_key_file(), "cannot be read")
    connection.write_each(SIGN, [{"digest": each} for each in digests])


def foreign_state(name: str, place: StoreLocation) -> ForeignState:
    """Return the error about a database that someone else made."""
    what = f"{name}: you have not made the state of runs and memories here, so nothing of it is used"
    aside = place.parent if isinstance(place, Path) else "`.git/scaffold/schema`"
    fix = f"`scaffold trust --state` shows and adopts it, as after a copy. Or move {aside} away to start without it."
    return ForeignState(what, fix)


def _own_digests(place: StoreLocation, key: bytes | None) -> tuple[str, ...]:
    if key is None:
        return ()
    if isinstance(place, Path):
        file = place.stat()
        # A repository that moved is still the same file; a backup that was restored is at the same path.
        subjects: tuple[str, ...] = (f"path {os.path.realpath(place)}", f"file {file.st_dev}:{file.st_ino}")
    else:
        subjects = (f"schema {place.schema}",)
    return tuple(hmac.new(key, os.fsencode(each), "sha256").hexdigest() for each in subjects)


def _key_file() -> Path:
    return user_dirs().data / "state.key"


def _read_key() -> bytes | None:
    """Return the user's key; None before the first database, and in a sandbox, which hides it."""
    path = _key_file()
    try:
        key = path.read_bytes()
    except (FileNotFoundError, PermissionError):
        return None
    except OSError as error:
        raise _unusable_key(path, f"cannot be read: {error.strerror}") from error
    # Anyone can sign with an empty key.
    if len(key) != KEY_BYTES:
        raise _unusable_key(path, f"has {len(key)} bytes instead of {KEY_BYTES}")
    return key


def _make_key() -> bytes | None:
    path = _key_file()
    draft = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(os.urandom(KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(draft, path)  # whole or not at all; of several processes the first one wins
        draft.unlink()
    except OSError as error:
        fix = "Make its folder writable, or set SCAFFOLD_HOME to one that is."
        raise _unusable_key(path, f"cannot be stored: {error.strerror}", fix) from error
    return _read_key()


def _unusable_key(path: Path, problem: str, fix: str = RESTORE) -> StoreError:
    return StoreError(f"{path}: the key of your states {problem}", fix)
