"""The SQLite driver: one file, one writer at a time, concurrent readers."""

import os
import sqlite3
import time
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NoReturn

from scaffold.core.errors import StoreError, StoreReadOnly, StoreUnavailable
from scaffold.host.random_ids import random_below
from scaffold.store.driver.connection import ColumnValue
from scaffold.store.row_errors import START_HINT

MAX_LOCK_POLL_MS = 4
"""Maximum random sleep between two tries to lock the database. SQLite's own back-off of up to 100 ms would lose
against a process that writes continuously and retakes the lock within a millisecond."""

CACHE_KIB = 8192
"""Large enough for a plan of 10,000 actions, so that access to one action costs the same as in a small plan."""

PRAGMAS = (
    # Not zero, by which a first try would fail at once; `_execute_statement` repeats it up to the timeout.
    "busy_timeout = 1",
    # SQLite leaves them off for each new connection.
    "foreign_keys = ON",
    # Survives a killed process; `begin` asks for FULL where a power cut must lose nothing.
    "synchronous = NORMAL",
    f"cache_size = -{CACHE_KIB}",
    "secure_delete = ON",  # what is deleted is overwritten, also in pages that become free
)

IN_MEMORY = Path(":memory:")
"""Path of a temporary database: private to this process and deleted when closed."""

NO_VALUES: Mapping[str, ColumnValue] = {}
TABLES = "SELECT name FROM sqlite_master WHERE type = 'table'"

_ELSEWHERE = "Check that the path names a file in a directory you may write to, then repeat the command."
_BROKEN = "Nothing was changed. Move the file away and restore a backup, or start without it."
_UNEXPLAINED = ("the database failed", "Run `scaffold doctor`, then repeat the command.")
_EXPLANATIONS: Mapping[int, tuple[str, str]] = {
    sqlite3.SQLITE_BUSY: ("another process holds the database lock", "Wait for it or end it, then repeat the command."),
    sqlite3.SQLITE_LOCKED: (
        "another statement holds the database lock",
        "Wait for it to end, then repeat the command.",
    ),
    sqlite3.SQLITE_FULL: ("the disk is full", "Free some space, then repeat the command; nothing was changed."),
    sqlite3.SQLITE_NOTADB: ("this is not a database", _BROKEN),
    sqlite3.SQLITE_CORRUPT: ("the database is corrupt", _BROKEN),
    sqlite3.SQLITE_CANTOPEN: ("the database cannot be opened", _ELSEWHERE),
    sqlite3.SQLITE_READONLY: ("the database is not writable", _ELSEWHERE),
    sqlite3.SQLITE_PERM: ("access to the database is denied", _ELSEWHERE),
    sqlite3.SQLITE_CONSTRAINT: ("this conflicts with stored data", "Nothing was changed; use another name or id."),
    sqlite3.SQLITE_IOERR: ("the disk failed to read or write", "Check the disk, then repeat the command."),
}
_PASSING = frozenset(
    {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN}
)
"""Those that may be over later."""
_DENIED = frozenset({sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM})


class SqliteDriver:
    """A connection to one file, only for the thread that opened it. Implements `connection.DatabaseDriver`."""

    dialect = "sqlite"

    def __init__(self, path: Path, *, create: bool, timeout_s: float, private: bool = False) -> None:
        """Open the file; raise StoreError if it is missing, unless `create`. `timeout_s` is the timeout for a lock.

        Without `create`, a file that is not writable is opened read-only. With `private`, the file and its directory
        are created with access for their owner only.
        """
        in_memory = path == IN_MEMORY
        if not in_memory:
            _prepare_path(path, create=create, private=private)
        self.name = str(path)
        self.read_only = None if create or in_memory else _why_read_only(path)
        self._path = path
        self._durable = False
        self._timeout_s = timeout_s
        mode = "rwc" if create else "rw"
        if self.read_only is not None:
            log = path.with_name(f"{path.name}-wal")
            # Without a log there is no writer, so `immutable` avoids taking locks.
            mode = "ro" if log.exists() and log.stat().st_size else "ro&immutable=1"
        uri = "file::memory:" if in_memory else f"{path.absolute().as_uri()}?mode={mode}"
        try:
            # isolation_level None: otherwise Python would begin transactions by itself, and not with BEGIN IMMEDIATE.
            self._raw = sqlite3.connect(uri, uri=True, isolation_level=None, cached_statements=256)
            self._raw.row_factory = sqlite3.Row
        except sqlite3.Error as error:
            self._raise_store_error(error)
        # These hold for one connection only. A negative cache_size is a size in KiB, a positive one a number of pages.
        for pragma in PRAGMAS:
            self._execute_statement(
                f"PRAGMA {pragma}"
            )  # some read the file, which another process may be creating right now

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._raw.in_transaction

    def rows(self, statement: str, values: Mapping[str, ColumnValue] = NO_VALUES, /) -> list[Any]:
        """Execute a statement and return all of its rows."""
        try:
            return self._execute_statement(statement, values).fetchall()
        except sqlite3.Error as error:
            self._raise_store_error(error)
        except UnicodeDecodeError as error:
            raise StoreError(f"{self.name}: the database is corrupt ({error})", _BROKEN) from error

    def change(self, statement: str, values: Mapping[str, ColumnValue], /) -> int:
        """Execute a statement and return how many rows it changed."""
        return self._execute_statement(statement, values).rowcount

    def change_each(self, statement: str, rows: Iterable[Mapping[str, ColumnValue]], /) -> int:
        """Execute the statement for each of `rows` and return how many rows it changed in total."""
        try:
            return self._raw.executemany(statement, rows).rowcount
        except sqlite3.Error as error:
            self._raise_store_error(error)

    def attempt(self, _statements: str, /) -> bool:
        """Do nothing, and return False: what a database may lack, it has."""
        return False

    def begin(self, *, durable: bool) -> None:
        """Take the write lock at once, so that the transaction cannot fail later because another one holds it."""
        if durable is not self._durable:
            # Before BEGIN, because SQLite refuses to change this setting inside a transaction.
            self.rows(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._durable = durable
        self._execute_statement("BEGIN IMMEDIATE")

    def begin_snapshot(self) -> None:
        """Start a transaction that takes no lock a writer would wait for."""
        self._execute_statement("BEGIN DEFERRED")

    def commit(self) -> None:
        """Commit everything since `begin`."""
        self._execute_statement("COMMIT")

    def roll_back(self) -> None:
        """Undo everything since `begin`."""
        self._execute_statement("ROLLBACK")

    def ended(self) -> None:
        """Do nothing: a file is never out of reach."""

    def tables(self) -> frozenset[str]:
        """Return the names of the tables in the file."""
        return frozenset(row["name"] for row in self.rows(TABLES))

    def make_ready(self) -> None:
        """Enable the write-ahead log, so that readers and a writer can work at once; the setting stays in the file."""
        while True:
            try:
                self._raw.execute("PRAGMA journal_mode = WAL")
            except sqlite3.Error as error:
                if _primary_code(error) != sqlite3.SQLITE_BUSY:
                    self._raise_store_error(error)
            else:
                return
            self.begin(durable=False)  # SQLite does not wait for locks when switching to WAL: wait for the writer here
            self.roll_back()

    def back_up(self, version: int) -> None:
        """Copy the committed data to `<file>.bak-<version>`, atomically; a transaction in progress is not included."""
        target = self._path.with_name(f"{self._path.name}.bak-{version}")
        draft = target.with_name(f".{target.name}.{os.urandom(4).hex()}")
        try:
            # The copy contains everything the original does, so it must not be readable by more users.
            draft.touch(self._path.stat().st_mode & 0o777, exist_ok=False)
            # Our own connection holds an open transaction here; a new one sees only what is committed.
            with closing(sqlite3.connect(self._path)) as source, closing(sqlite3.connect(draft)) as copy:
                source.backup(copy)
            draft.replace(target)
        except (OSError, sqlite3.Error) as error:
            what = f"{self.name}: the database could not be backed up ({error})"
            raise StoreError(what, f"Nothing was changed. Make {target} writable, then repeat the command.") from error
        finally:
            draft.unlink(missing_ok=True)

    def data_version(self) -> int:
        """Return SQLite's count of other connections' commits."""
        return int(self.rows("PRAGMA data_version")[0]["data_version"])

    def rewrite_words(self, table: str) -> None:
        """Join the parts of an FTS5 index; a deleted word is in the older ones until then."""
        self._execute_statement(f"INSERT INTO {table} ({table}) VALUES ('optimize')")  # noqa: S608 - our table

    def empty_log(self) -> bool:
        """Rewrite the file, and cut the log to nothing; return False if another process or a full disk prevents that.

        `secure_delete` overwrites rows where they are. Where SQLite has moved them when it balanced a tree, copies stay
        in the free space of pages, which only a new file does not have.
        """
        try:
            self._execute_statement("VACUUM")
        except StoreUnavailable:
            return False
        return not self.rows("PRAGMA wal_checkpoint(TRUNCATE)")[0]["busy"]

    def erase(self) -> None:
        """Do nothing: the file is deleted with its folder."""

    def close(self) -> None:
        """Close the file; an open transaction is rolled back."""
        self._raw.close()

    def _execute_statement(self, statement: str, values: Mapping[str, ColumnValue] = NO_VALUES) -> sqlite3.Cursor:
        try:
            return self._raw.execute(statement, values)
        except sqlite3.Error as error:
            if _primary_code(error) != sqlite3.SQLITE_BUSY:
                self._raise_store_error(error)
        # Safe to repeat, as a statement that met the lock changed nothing.
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                # SQLite itself sleeps for this time, so each try is one wait of a random length.
                self._raw.execute(f"PRAGMA busy_timeout = {1 + random_below(MAX_LOCK_POLL_MS)}")
                return self._raw.execute(statement, values)
            except sqlite3.Error as error:
                if _primary_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                    self._raise_store_error(error)

    def _raise_store_error(self, error: sqlite3.Error) -> NoReturn:
        """Raise SQLite's error as StoreError; errors that indicate a bug are raised unchanged."""
        # A wrong statement is a bug of ours: no user can fix it.
        if isinstance(error, sqlite3.ProgrammingError):
            raise error
        what, fix = _EXPLANATIONS.get(_primary_code(error), _UNEXPLAINED)
        kind = StoreUnavailable if _primary_code(error) in _PASSING else StoreError
        kind = StoreReadOnly if _primary_code(error) in _DENIED else kind
        raise kind(f"{self.name}: {what} ({error})", fix) from error


def _primary_code(error: sqlite3.Error) -> int:
    """Return SQLite's primary error code; undecodable text, which has none, counts as corruption."""
    unreadable = str(error).startswith("Could not decode")
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT if unreadable else sqlite3.SQLITE_ERROR)
    return code & 0xFF


def _prepare_path(path: Path, *, create: bool, private: bool) -> None:
    try:
        if create:
            path.parent.mkdir(mode=0o700 if private else 0o777, parents=True, exist_ok=True)
        if create and private:
            # Not opened if it exists: closing it would release SQLite's locks on it. Its log files inherit the mode.
            with suppress(FileExistsError):
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            for owned, mode in ((path, 0o600), (path.parent, 0o700)):
                found = owned.stat()
                if found.st_mode & 0o077 and found.st_uid == os.geteuid():
                    owned.chmod(mode)
        missing = not create and not path.exists()
    except OSError as error:
        what = f"{path}: the database is not accessible ({error.strerror})"
        raise StoreError(what, "Check its directory and permissions, then repeat the command.") from error
    if missing:
        raise StoreError(f"{path}: there is no database yet", f"{START_HINT}; it creates one.")


def _why_read_only(path: Path) -> str | None:
    """Return which is not writable: the file or its directory, where SQLite keeps the log; None if both are."""
    for needed in (path, path.parent):
        if not os.access(needed, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
            return f"{needed} cannot be written"
    return None
