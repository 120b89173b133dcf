"""The store on SQLite: one file, one writer at a time, readers beside it."""

import os
import secrets
import sqlite3
import time
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NoReturn

from scaffold.core.errors import StoreTrouble
from scaffold.store.connection import Value
from scaffold.store.refusals import HOW_TO_BEGIN

LONGEST_NAP_MS = 4
"""How long a waiter sleeps before it looks again. SQLite itself would sleep up to 100 ms, while somebody who writes
all the time takes the lock anew within a fraction of one; at random, so that waiters do not come back together."""

CACHE_KIB = 8192
"""Room for the pages of a plan of 10,000 actions, so that one of its actions costs what one of a small plan does."""

IN_MEMORY = Path(":memory:")
"""The place of a database that nobody keeps: it is gone when it is closed, and no other process sees it."""

NOTHING: Mapping[str, Value] = {}
TABLES = "SELECT name FROM sqlite_master WHERE type = 'table'"

_ELSEWHERE = "Check that the path names a file in a directory you may write to, then repeat the command."
_BROKEN = "Nothing was changed. Move the file away and put back a copy, or start anew without it."
_UNEXPLAINED = ("the database does not work", "Run `scaffold doctor`, then repeat the command.")
_EXPLANATIONS: Mapping[int, tuple[str, str]] = {
    sqlite3.SQLITE_BUSY: (
        "another process keeps the database locked",
        "Wait for it or end it, then repeat the command.",
    ),
    sqlite3.SQLITE_LOCKED: (
        "another statement keeps the database locked",
        "Wait for it to end, then repeat the command.",
    ),
    sqlite3.SQLITE_FULL: ("the disk is full", "Free some space, then repeat the command; nothing half-done was kept."),
    sqlite3.SQLITE_NOTADB: ("this is not a database", _BROKEN),
    sqlite3.SQLITE_CORRUPT: ("the database is damaged", _BROKEN),
    sqlite3.SQLITE_CANTOPEN: ("the database cannot be opened", _ELSEWHERE),
    sqlite3.SQLITE_READONLY: ("the database cannot be written", _ELSEWHERE),
    sqlite3.SQLITE_PERM: ("access to the database is denied", _ELSEWHERE),
    sqlite3.SQLITE_CONSTRAINT: ("this contradicts what is stored", "Nothing was changed; use another name or id."),
    sqlite3.SQLITE_IOERR: ("the disk failed to read or write", "Check the disk, then repeat the command."),
}


class Sqlite:
    """A connection to one file, for the thread that opened it only. Implements `connection.Driver`."""

    def __init__(self, path: Path, *, create: bool, patience_s: float, private: bool = False) -> None:
        """Open the file; a missing one is StoreTrouble unless `create`. `patience_s` is how long to wait for a lock.

        Without `create`, one that may only be read is opened for reading. A `private` one, and its directory, are
        nobody else's to read from the moment on that they are made.
        """
        in_memory = path == IN_MEMORY
        if not in_memory:
            _find_place(path, create=create, private=private)
        self.name = str(path)
        self.read_only = None if create or in_memory else _why_read_only(path)
        self._path = path
        self._durable = False
        self._patience_s = patience_s
        mode = "rwc" if create else "rw" if self.read_only is None else _reading(path)
        uri = "file::memory:" if in_memory else f"{path.absolute().as_uri()}?mode={mode}"
        try:
            self._raw = sqlite3.connect(uri, uri=True, isolation_level=None, cached_statements=256)
            self._raw.row_factory = sqlite3.Row
        except sqlite3.Error as error:
            self._fail(error)
        for pragma in ("busy_timeout = 1", "foreign_keys = ON", "synchronous = NORMAL", f"cache_size = -{CACHE_KIB}"):
            self._execute(f"PRAGMA {pragma}")  # one of them looks into the file, which somebody may just be making

    @property
    def in_transaction(self) -> bool:
        """Whether `begin` was called and its transaction is not over."""
        return self._raw.in_transaction

    def rows(self, statement: str, values: Mapping[str, Value] = NOTHING, /) -> list[Any]:
        """Carry a statement out and return every row it gives."""
        try:
            return self._execute(statement, values).fetchall()
        except sqlite3.Error as error:
            self._fail(error)
        except UnicodeDecodeError as error:
            raise StoreTrouble(f"{self.name}: the database is damaged ({error})", _BROKEN) from error

    def change(self, statement: str, values: Mapping[str, Value], /) -> int:
        """Carry a statement out and return how many rows it changed."""
        return self._execute(statement, values).rowcount

    def change_each(self, statement: str, rows: Iterable[Mapping[str, Value]], /) -> int:
        """Carry the same statement out for each of `rows` and return how many rows it changed in all."""
        try:
            return self._raw.executemany(statement, rows).rowcount
        except sqlite3.Error as error:
            self._fail(error)

    def begin(self, *, durable: bool) -> None:
        """Take the write lock at once, so that no transaction fails halfway for want of it."""
        if durable is not self._durable:
            self.rows(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._durable = durable
        self._execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Keep everything since `begin`."""
        self._execute("COMMIT")

    def roll_back(self) -> None:
        """Undo everything since `begin`."""
        self._execute("ROLLBACK")

    def tables(self) -> frozenset[str]:
        """Return the names of the tables in the file."""
        return frozenset(row["name"] for row in self.rows(TABLES))

    def make_ready(self) -> None:
        """Turn the write-ahead log on: readers and one writer work side by side; a property of the file that stays."""
        while not self._log_is_on():
            self.begin(durable=False)  # SQLite does not wait by itself here: wait for whoever has the lock, then go on
            self.roll_back()

    def back_up(self, version: int) -> None:
        """Copy the database to `<file>.bak-<version>`: whole or not there; from a transaction, as it was before it."""
        target = self._path.with_name(f"{self._path.name}.bak-{version}")
        draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
        try:
            draft.touch(self._path.stat().st_mode & 0o777, exist_ok=False)
            with closing(sqlite3.connect(self._path)) as source, closing(sqlite3.connect(draft)) as copy:
                source.backup(copy)
            draft.replace(target)
        except (OSError, sqlite3.Error) as error:
            what = f"{self.name}: no copy of the database could be made ({error})"
            raise StoreTrouble(
                what, f"Nothing was changed. Make {target} possible, then repeat the command."
            ) from error
        finally:
            draft.unlink(missing_ok=True)

    def data_version(self) -> int:
        """Return SQLite's own count of others' commits."""
        return int(self.rows("PRAGMA data_version")[0]["data_version"])

    def erase(self) -> None:
        """Do nothing: the file goes with its folder."""

    def close(self) -> None:
        """Give the file back; an open transaction is rolled back."""
        self._raw.close()

    def _execute(self, statement: str, values: Mapping[str, Value] = NOTHING) -> sqlite3.Cursor:
        try:
            return self._raw.execute(statement, values)
        except sqlite3.Error as error:
            if _primary_code(error) != sqlite3.SQLITE_BUSY:
                self._fail(error)
        return self._insist(statement, values)

    def _insist(self, statement: str, values: Mapping[str, Value]) -> sqlite3.Cursor:
        """Try again and again while somebody else has the lock; it changed nothing so far."""
        deadline = time.monotonic() + self._patience_s
        while True:
            try:
                self._raw.execute(f"PRAGMA busy_timeout = {1 + secrets.randbelow(LONGEST_NAP_MS)}")
                return self._raw.execute(statement, values)
            except sqlite3.Error as error:
                if _primary_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                    self._fail(error)

    def _log_is_on(self) -> bool:
        """Turn the write-ahead log on; False if somebody else has the lock that this takes."""
        try:
            self._raw.execute("PRAGMA journal_mode = WAL")
        except sqlite3.Error as error:
            if _primary_code(error) != sqlite3.SQLITE_BUSY:
                self._fail(error)
            return False
        return True

    def _fail(self, error: sqlite3.Error) -> NoReturn:
        """Turn what SQLite raises into StoreTrouble; wrong use of it stays a bug."""
        if isinstance(error, sqlite3.ProgrammingError):
            raise error
        what, fix = _EXPLANATIONS.get(_primary_code(error), _UNEXPLAINED)
        raise StoreTrouble(f"{self.name}: {what} ({error})", fix) from error


def _primary_code(error: sqlite3.Error) -> int:
    """Return SQLite's code; text that cannot be read is Python's own error, which has none."""
    unreadable = str(error).startswith("Could not decode")
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT if unreadable else sqlite3.SQLITE_ERROR)
    return code & 0xFF


def _find_place(path: Path, *, create: bool, private: bool) -> None:
    try:
        if create:
            path.parent.mkdir(mode=0o700 if private else 0o777, parents=True, exist_ok=True)
        if create and private:
            _close_to_others(path)
        missing = not create and not path.exists()
    except OSError as error:
        what = f"{path}: the database is out of reach ({error.strerror})"
        raise StoreTrouble(what, "Check its directory and who may write there, then repeat the command.") from error
    if missing:
        raise StoreTrouble(f"{path}: there is no database yet", f"{HOW_TO_BEGIN}; it makes one.")


def _close_to_others(path: Path) -> None:
    """Make sure the file is there and only its owner may open it; what SQLite puts beside it is like it.

    A file that was there is not opened: closing it again would give up SQLite's own locks on it.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    for mine, mode in ((path, 0o600), (path.parent, 0o700)):
        found = mine.stat()
        if found.st_mode & 0o077 and found.st_uid == os.geteuid():
            mine.chmod(mode)


def _why_read_only(path: Path) -> str | None:
    """Return what cannot be written: the file, or its directory, where SQLite keeps the log beside it."""
    for needed in (path, path.parent):
        if not os.access(needed, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
            return f"{needed} cannot be written"
    return None


def _reading(path: Path) -> str:
    """Return how to open a file for reading; without a log beside it nobody is writing, and no lock is needed."""
    log = path.with_name(f"{path.name}-wal")
    return "ro" if log.exists() and log.stat().st_size else "ro&immutable=1"
