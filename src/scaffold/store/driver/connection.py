"""One connection to a database of either kind: statements, transactions, compare-and-set."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from scaffold.core.errors import StoreUnavailable
from scaffold.store.row_errors import not_found, stale_fence

ColumnValue = str | int | float | bytes | None


class Row(Protocol):
    """A result row, by column name."""

    def __getitem__(self, column: str, /) -> Any: ...

    def keys(self) -> Iterable[str]:
        """Return the column names, in order."""


class DatabaseDriver(Protocol):
    """What the store needs from a database. Implementations raise their errors as StoreError with the cause."""

    name: str
    """The database's name in error messages; contains no secrets."""
    read_only: str | None
    """Why the database is read-only; None if it is writable."""
    dialect: str
    """The word by which a migration says that one of its statements is for this database only."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""

    def rows(self, statement: str, values: Mapping[str, ColumnValue], /) -> list[Any]:
        """Execute a statement and return all of its rows."""

    def change(self, statement: str, values: Mapping[str, ColumnValue], /) -> int:
        """Execute a statement and return how many rows it changed."""

    def change_each(self, statement: str, rows: Iterable[Mapping[str, ColumnValue]], /) -> int:
        """Execute the statement for each of `rows` and return how many rows it changed in total."""

    def attempt(self, statements: str, /) -> bool:
        """Execute statements within a transaction; undo them and return False if one fails, which is no error.

        For what only one kind of database has; does nothing, and returns False, on the others.
        """

    def begin(self, *, durable: bool) -> None:
        """Start a transaction with the exclusive write lock, waiting for the current writer; others can still read."""

    def begin_snapshot(self) -> None:
        """Start a transaction that only reads: until `roll_back`, it shows the data as it was at its first read."""

    def commit(self) -> None:
        """Commit everything since `begin`; from now on a `durable` transaction survives a power loss."""

    def roll_back(self) -> None:
        """Undo everything since `begin`."""

    def ended(self) -> None:
        """Take note that a transaction or snapshot is over, however it ended."""

    def tables(self) -> frozenset[str]:
        """Return the names of the tables, without the driver's own."""

    def make_ready(self) -> None:
        """Create what the driver itself needs before the first transaction; safe to repeat."""

    def back_up(self, version: int) -> None:
        """Copy the committed data to a backup named after the schema version, if the database supports it."""

    def data_version(self) -> int:
        """Return a number that changes if and only if another connection commits."""

    def rewrite_words(self, table: str) -> None:
        """Rewrite the full-text index, in which deleted words stay until then; needs a transaction."""

    def empty_log(self) -> bool:
        """Remove what deleted rows have left in the file and its log; return False if something prevents that now.

        Outside of a transaction; takes time with the size of the file. Does nothing for a server, whose administrator
        decides when space is reclaimed.
        """

    def erase(self) -> None:
        """Delete all stored data on a server; does nothing for a file, which its owner deletes."""

    def close(self) -> None:
        """Close the connection; an open transaction is rolled back."""


class DeferredWrites(Protocol):
    """Small changes collected during a transaction and written together at its end."""

    def flush(self) -> None:
        """Write the collected changes, inside the transaction."""

    def forget(self) -> None:
        """Drop the collected changes: the transaction is over."""


class Connection:
    """Statements with named parameters; writes are allowed only inside a transaction."""

    def __init__(self, driver: DatabaseDriver) -> None:
        self.driver = driver
        self.foreign: str | None = None
        """Why nothing of the database counts, though it is shown."""
        self._deferred: list[DeferredWrites] = []
        self._in_snapshot = False

    def keep(self, writes: DeferredWrites) -> None:
        """Flush `writes` at the end of each transaction from now on."""
        self._deferred.append(writes)

    def require_transaction(self) -> None:
        """Raise RuntimeError if no transaction is open that may write."""
        # A snapshot is a transaction for the driver as well, so its own state does not tell the two apart.
        if self._in_snapshot or not self.driver.in_transaction:
            raise RuntimeError("the store can only be changed inside `with store.transaction():`")

    def rows(self, statement: str, /, **values: ColumnValue) -> list[Row]:
        """Return all rows of the statement."""
        return self.driver.rows(statement, values)

    def row(self, statement: str, /, **values: ColumnValue) -> Row | None:
        """Return the first row of the statement; None if there is none."""
        rows = self.driver.rows(statement, values)
        return rows[0] if rows else None

    def require_row(self, statement: str, noun: str, name: str) -> Row:
        """Return the row the statement finds for `:id` = `name`; raise StoreError if there is no such `noun`."""
        row = self.row(statement, id=name)
        if row is None:
            raise not_found(noun, name)
        return row

    def write(self, statement: str, /, **values: ColumnValue) -> None:
        """Execute a write; raise RuntimeError outside a transaction."""
        self.require_transaction()
        self.driver.change(statement, values)

    def write_returning(self, statement: str, /, **values: ColumnValue) -> list[Row]:
        """Execute a write and return the rows of its RETURNING clause; raise RuntimeError outside a transaction."""
        self.require_transaction()
        return self.driver.rows(statement, values)

    def write_each(self, statement: str, rows: Iterable[Mapping[str, ColumnValue]]) -> None:
        """Execute the same write for each of `rows`; raise RuntimeError outside a transaction."""
        self.require_transaction()
        self.driver.change_each(statement, rows)

    def compare_and_set(self, statement: str, noun: str, name: str, /, **values: ColumnValue) -> None:
        """Change the row with `:id` = `name`; raise StaleFence if it does not match the statement's conditions."""
        self.require_transaction()
        # The conditions are part of the statement, so no other process can write between a check and the change.
        if self.driver.change(statement, {"id": name, **values}) != 1:
            raise stale_fence(noun, name, "it changed in the meantime")

    def compare_and_set_each(self, statement: str, noun: str, rows: Sequence[Mapping[str, ColumnValue]]) -> None:
        """Change the row of each `id` in `rows`; raise StaleFence if one does not match the statement's conditions."""
        self.require_transaction()
        changed = self.driver.change_each(statement, rows)
        if changed != len(rows):
            raise stale_fence(noun, str(rows[0]["id"]), f"it, or one of {len(rows)} with it, changed in the meantime")

    @contextmanager
    def transaction(self, *, durable: bool = False) -> Iterator[None]:
        """Hold the write lock; commit at the end, roll back if the block raises. See `BaseStore.transaction`."""
        driver = self.driver
        self._require_no_transaction()
        if driver.read_only is not None:
            what = f"{driver.name}: the database is read-only: {driver.read_only}"
            raise StoreUnavailable(what, "Nothing was changed; commands that only read still work.")
        driver.begin(durable=durable)
        try:
            yield
            # Before the commit: a change and its event are one transaction.
            for writes in self._deferred:
                writes.flush()
            driver.commit()
        finally:
            for writes in self._deferred:
                writes.forget()
            # Still open after an error in the block, and after a commit that failed.
            if driver.in_transaction:
                driver.roll_back()
            driver.ended()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Show the data to all reads of the block as it was at the first of them. See `Store.snapshot`."""
        self._require_no_transaction()
        self.driver.begin_snapshot()
        self._in_snapshot = True
        try:
            yield
        finally:
            self._in_snapshot = False
            if self.driver.in_transaction:
                self.driver.roll_back()
            self.driver.ended()

    def _require_no_transaction(self) -> None:
        if self.driver.in_transaction:
            raise RuntimeError("a transaction is already open on this store; end it before starting another")
