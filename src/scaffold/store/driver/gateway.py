"""The bases of stores and of their gateways: a gateway reads and writes the tables of one subject."""

from contextlib import AbstractContextManager

from scaffold.store.driver.columns import TimeSource, format_time
from scaffold.store.driver.connection import Connection


class TableGateway:
    """Reads and writes the tables of one subject; the caller owns the transaction."""

    def __init__(self, connection: Connection, clock: TimeSource) -> None:
        self._connection = connection
        self._clock = clock

    def _now_text(self) -> str | None:
        return format_time(self._clock.now())


class BaseStore:
    """An open database. Reads work anywhere, writes only inside `with store.transaction():`.

    A store belongs to the thread that opened it and does not survive a fork: each process opens its own.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.name = connection.driver.name
        """The file, or the server's address without secrets; for messages."""
        self.foreign = connection.foreign
        """A line about the user who made it, if that is someone else; None for one's own."""

    def transaction(self, *, durable: bool = False) -> AbstractContextManager[None]:
        """Return a block whose changes are committed together at its end, or rolled back if it raises.

        Use `durable` for changes that precede or record an effect outside the database; they survive a power loss, too.
        Raises RuntimeError if nested, StoreError if another process holds the lock for longer than the store's timeout.
        """
        return self._connection.transaction(durable=durable)

    def data_version(self) -> int:
        """Return a number that changes if and only if another connection commits."""
        return self._connection.driver.data_version()

    def close(self) -> None:
        """Close the connection; the store cannot be used afterwards."""
        self._connection.driver.close()
