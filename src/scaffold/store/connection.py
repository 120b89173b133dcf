"""One connection to one database file: statements, transactions, and foreign errors made ours."""

import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from scaffold.core.errors import StoreTrouble
from scaffold.store import dialect
from scaffold.store.refusals import no_such, stale_fence

Row = sqlite3.Row
Value = str | int | float | None

BEGIN_TRIES = 3
"""Each waits about the patience of the connection; a random part keeps waiters from coming back together."""

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


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn what the driver raises about the database at `path` into StoreTrouble; wrong use of it stays a bug."""
    try:
        yield
    except sqlite3.ProgrammingError:
        raise
    except sqlite3.Error as error:
        what, fix = _EXPLANATIONS.get(_primary_code(error), _UNEXPLAINED)
        raise StoreTrouble(f"{path}: {what} ({error})", fix) from error


def _primary_code(error: sqlite3.Error) -> int:
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return code & 0xFF


class Connection:
    """Statements with named parameters on one SQLite file, for the thread that opened it only."""

    def __init__(self, path: Path, *, create: bool, patience_s: float) -> None:
        """Open the file; a missing one is StoreTrouble unless `create`. `patience_s` is how long to wait for a lock."""
        self.path = path
        self._patience_ms = int(patience_s * 1000)
        mode = "rwc" if create else "rw"
        with translated(path):
            self._raw = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None, cached_statements=256
            )
            self._raw.row_factory = sqlite3.Row
            self._raw.execute(f"PRAGMA busy_timeout = {self._patience_ms}")
            self._raw.execute("PRAGMA foreign_keys = ON")

    def rows(self, statement: str, /, **values: Value) -> list[Row]:
        """Return every row the statement gives."""
        with translated(self.path):
            return self._raw.execute(statement, values).fetchall()

    def row(self, statement: str, /, **values: Value) -> Row | None:
        """Return the first row the statement gives, None if there is none."""
        rows = self.rows(statement, **values)
        return rows[0] if rows else None

    def held(self, statement: str, noun: str, name: str) -> Row:
        """Return the row that the statement finds for `:id` = `name`; StoreTrouble if there is no such `noun`."""
        row = self.row(statement, id=name)
        if row is None:
            raise no_such(noun, name)
        return row

    def write(self, statement: str, /, **values: Value) -> list[Row]:
        """Carry a change out and return what its RETURNING gives; RuntimeError outside a transaction."""
        self._require_transaction()
        return self.rows(statement, **values)

    def write_each(self, statement: str, rows: Iterable[Mapping[str, Value]]) -> None:
        """Carry the same change out for each of `rows`; RuntimeError outside a transaction."""
        self._require_transaction()
        with translated(self.path):
            self._raw.executemany(statement, rows)

    def swap(self, statement: str, noun: str, name: str, /, **values: Value) -> None:
        """Change the row with `:id` = `name`; StaleFence if it is not as the statement expects it."""
        self._require_transaction()
        with translated(self.path):
            changed = self._raw.execute(statement, {"id": name, **values}).rowcount
        if changed != 1:
            raise stale_fence(noun, name, "it changed in the meantime")

    @contextmanager
    def transaction(self, *, durable: bool = False) -> Iterator[None]:
        """Hold the write lock; commit at the end, roll back if anything is raised. `durable` outlives a power cut."""
        if self._raw.in_transaction:
            raise RuntimeError("a transaction is open on this store already: end it before you begin another")
        with translated(self.path):
            self._raw.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
        try:
            self._begin()
            yield
            with translated(self.path):
                self._raw.execute("COMMIT")
        finally:
            if self._raw.in_transaction:
                self._raw.execute("ROLLBACK")

    def use_write_ahead_log(self) -> None:
        """Let readers and one writer work side by side; a property of the file that stays."""
        if not self._unless_busy("PRAGMA journal_mode = WAL"):
            with self.transaction():  # SQLite does not wait by itself here: wait for whoever has the lock, then go on
                pass
            self.rows("PRAGMA journal_mode = WAL")

    def close(self) -> None:
        """Give the file back; an open transaction is rolled back."""
        self._raw.close()

    def _begin(self) -> None:
        for _ in range(BEGIN_TRIES - 1):
            if self._unless_busy(dialect.BEGIN_WRITE):
                return
            patience_ms = self._patience_ms // 2 + secrets.randbelow(self._patience_ms + 1)
            self._raw.execute(f"PRAGMA busy_timeout = {patience_ms}")
        self.rows(dialect.BEGIN_WRITE)

    def _unless_busy(self, statement: str) -> bool:
        """Run a statement; False if somebody else still holds the lock it needs."""
        with translated(self.path):
            try:
                self._raw.execute(statement)
            except sqlite3.OperationalError as error:
                if _primary_code(error) != sqlite3.SQLITE_BUSY:
                    raise
                return False
        return True

    def _require_transaction(self) -> None:
        if not self._raw.in_transaction:
            raise RuntimeError("a change to the store belongs inside `with store.transaction():`")
