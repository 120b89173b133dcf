"""One connection to one database, whichever it is: statements, transactions, compare-and-swap."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from scaffold.core.errors import StoreTrouble
from scaffold.store.refusals import no_such, stale_fence

Value = str | int | float | None


class Row(Protocol):
    """What a statement gave, by column."""

    def __getitem__(self, column: str, /) -> Any: ...

    def keys(self) -> Iterable[str]:
        """Return the names of the columns, in order."""
        ...


class Driver(Protocol):
    """A database as the store needs it; whatever it raises for a reason of its own is StoreTrouble that names it."""

    name: str
    """What error messages call the database; no secret is part of it."""
    read_only: str | None
    """Why the database can only be read; None if it can be written."""

    @property
    def in_transaction(self) -> bool:
        """Whether `begin` was called and its transaction is not over."""
        ...

    def rows(self, statement: str, values: Mapping[str, Value], /) -> list[Any]:
        """Carry a statement out and return every row it gives."""
        ...

    def change(self, statement: str, values: Mapping[str, Value], /) -> int:
        """Carry a statement out and return how many rows it changed."""
        ...

    def change_each(self, statement: str, rows: Iterable[Mapping[str, Value]], /) -> int:
        """Carry the same statement out for each of `rows` and return how many rows it changed in all."""
        ...

    def begin(self, *, durable: bool) -> None:
        """Take the one right to write, waiting for whoever has it; from here to the end others only read."""
        ...

    def commit(self) -> None:
        """Keep everything since `begin`; a `durable` transaction outlives a power cut from here on."""
        ...

    def roll_back(self) -> None:
        """Undo everything since `begin`."""
        ...

    def tables(self) -> frozenset[str]:
        """Return the names of the tables that somebody made here; the driver's own are left out."""
        ...

    def make_ready(self) -> None:
        """Set up what the driver itself needs before the first transaction; repeating it changes nothing."""
        ...

    def back_up(self, version: int) -> None:
        """Keep a copy of what was committed so far, named for the schema's version, where the database allows it."""
        ...

    def data_version(self) -> int:
        """Return a number that changes exactly when another connection commits."""
        ...

    def erase(self) -> None:
        """Remove from a server all that is stored; a file is left to whoever removes its folder."""
        ...

    def close(self) -> None:
        """Give the connection back; an open transaction is rolled back."""
        ...


class Ledger(Protocol):
    """Small changes that are collected during a transaction and written down together at its end."""

    def write_down(self) -> None:
        """Write what was collected, inside the transaction."""
        ...

    def forget(self) -> None:
        """Drop what was collected: the transaction is over."""
        ...


class Connection:
    """Statements with named parameters, and the rule that a change belongs inside a transaction."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self._ledgers: list[Ledger] = []

    def keep(self, ledger: Ledger) -> None:
        """Have the ledger written down at the end of each transaction from now on."""
        self._ledgers.append(ledger)

    def require_transaction(self) -> None:
        """Return inside a transaction; RuntimeError outside of one."""
        if not self.driver.in_transaction:
            raise RuntimeError("a change to the store belongs inside `with store.transaction():`")

    def rows(self, statement: str, /, **values: Value) -> list[Row]:
        """Return every row the statement gives."""
        return self.driver.rows(statement, values)

    def row(self, statement: str, /, **values: Value) -> Row | None:
        """Return the first row the statement gives, None if there is none."""
        rows = self.driver.rows(statement, values)
        return rows[0] if rows else None

    def held(self, statement: str, noun: str, name: str) -> Row:
        """Return the row that the statement finds for `:id` = `name`; StoreTrouble if there is no such `noun`."""
        row = self.row(statement, id=name)
        if row is None:
            raise no_such(noun, name)
        return row

    def write(self, statement: str, /, **values: Value) -> None:
        """Carry a change out; RuntimeError outside a transaction."""
        self.require_transaction()
        self.driver.change(statement, values)

    def write_returning(self, statement: str, /, **values: Value) -> list[Row]:
        """Carry a change out and return what its RETURNING gives; RuntimeError outside a transaction."""
        self.require_transaction()
        return self.driver.rows(statement, values)

    def write_each(self, statement: str, rows: Iterable[Mapping[str, Value]]) -> None:
        """Carry the same change out for each of `rows`; RuntimeError outside a transaction."""
        self.require_transaction()
        self.driver.change_each(statement, rows)

    def swap(self, statement: str, noun: str, name: str, /, **values: Value) -> None:
        """Change the row with `:id` = `name`; StaleFence if it is not as the statement expects it."""
        self.require_transaction()
        if self.driver.change(statement, {"id": name, **values}) != 1:
            raise stale_fence(noun, name, "it changed in the meantime")

    def swap_each(self, statement: str, noun: str, rows: Sequence[Mapping[str, Value]]) -> None:
        """Change the row of each `id` in `rows`; StaleFence if one is not as the statement expects it."""
        self.require_transaction()
        changed = self.driver.change_each(statement, rows)
        if changed != len(rows):
            raise stale_fence(noun, str(rows[0]["id"]), f"it, or one of {len(rows)} with it, changed in the meantime")

    @contextmanager
    def transaction(self, *, durable: bool = False) -> Iterator[None]:
        """Hold the right to write; commit at the end, roll back if anything is raised. See `Store.transaction`."""
        driver = self.driver
        if driver.in_transaction:
            raise RuntimeError("a transaction is open on this store already: end it before you begin another")
        if driver.read_only is not None:
            raise StoreTrouble(*_unwritable(driver.name, driver.read_only))
        driver.begin(durable=durable)
        try:
            yield
            for ledger in self._ledgers:
                ledger.write_down()
            driver.commit()
        finally:
            for ledger in self._ledgers:
                ledger.forget()
            if driver.in_transaction:
                driver.roll_back()


def _unwritable(name: str, why: str) -> tuple[str, str]:
    return f"{name}: the database can only be read: {why}", "Nothing was changed; reading commands still work."
