"""One database in memory that all simulated processes share, each by a connection that ends with it."""

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from scaffold.core.errors import StoreError
from scaffold.host.wall_clock import WallClock
from scaffold.store.database import IN_USE, Store
from scaffold.store.driver.connection import ColumnValue, Connection
from scaffold.store.driver.schema import MIGRATIONS, SchemaSource, open_connection
from scaffold.store.driver.sqlite import IN_MEMORY, SqliteDriver
from simulator.faults import FaultInjector
from simulator.loop import VirtualClock
from simulator.processes import Process

NAME = "simulated.db"


class Database:
    """The committed state, and callbacks that see each commit before any process can act on it."""

    def __init__(self) -> None:
        self.sqlite = SqliteDriver(IN_MEMORY, create=True, timeout_s=0.0)
        self.sqlite._raw.deserialize(_empty_schema())
        self.changes = 0
        """How many commits have changed something."""
        self._seen = self.sqlite._raw.total_changes
        self.listeners: list[Callable[[], None]] = []

    def open(self, process: Process, clock: VirtualClock, faults: FaultInjector) -> Store:
        """Return the store as `process` sees it."""
        return Store(Connection(_ProcessConnection(self, process, faults)), clock)

    def commit(self) -> bool:
        """Commit the open transaction and call the callbacks; return whether it changed anything."""
        self.sqlite.commit()
        if self.sqlite._raw.total_changes == self._seen:
            return False
        self._seen = self.sqlite._raw.total_changes
        self.changes += 1
        for listener in self.listeners:
            listener()
        return True


class _ProcessConnection:
    """A process's connection to the shared database: the part of `DatabaseDriver` that a store uses.

    Transactions never span an await, so one connection to SQLite serves all processes of a loop.
    """

    name = NAME
    dialect = "sqlite"
    read_only = None

    def __init__(self, database: Database, process: Process, faults: FaultInjector) -> None:
        self._database = database
        self._process = process
        self._faults = faults
        self._own = 0

    @property
    def in_transaction(self) -> bool:
        return self._database.sqlite.in_transaction

    def rows(self, statement: str, values: Mapping[str, ColumnValue] | None = None, /) -> list[Any]:
        self._process.require_alive()
        return self._database.sqlite.rows(statement, values or {})

    def change(self, statement: str, values: Mapping[str, ColumnValue], /) -> int:
        self._process.require_alive()
        return self._database.sqlite.change(statement, values)

    def change_each(self, statement: str, rows: Iterable[Mapping[str, ColumnValue]], /) -> int:
        self._process.require_alive()
        return self._database.sqlite.change_each(statement, rows)

    def begin(self, *, durable: bool) -> None:
        self._process.require_alive()
        if self._faults.locked():
            raise StoreError(f"{NAME}: another process holds the database lock", "Wait for it or end it.")
        self._database.sqlite.begin(durable=False)

    def begin_snapshot(self) -> None:
        self._process.require_alive()
        self._database.sqlite.begin_snapshot()

    def commit(self) -> None:
        self._process.require_alive()
        self._faults.execute_write(self._process, self._commit)

    def _commit(self) -> None:
        self._own += self._database.commit()

    def ended(self) -> None:
        """Do nothing: it is always within reach."""

    def roll_back(self) -> None:
        self._database.sqlite.roll_back()

    def data_version(self) -> int:
        self._process.require_alive()
        return self._database.changes - self._own

    def close(self) -> None:
        """Do nothing: all processes share the database."""


@functools.cache
def _empty_schema() -> bytes:
    """Return a database without runs, as the content of its file."""
    sqlite = SqliteDriver(IN_MEMORY, create=True, timeout_s=0.0)
    open_connection(sqlite, SchemaSource(MIGRATIONS, IN_USE), WallClock(), create=True)
    content: bytes = sqlite._raw.serialize()
    sqlite.close()
    return content
