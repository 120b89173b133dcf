"""The base of all gateways: a gateway reads and writes the tables of one subject."""

from scaffold.store.driver.columns import TimeSource
from scaffold.store.driver.connection import Connection


class TableGateway:
    """Reads and writes the tables of one subject; the caller owns the transaction."""

    def __init__(self, connection: Connection, clock: TimeSource) -> None:
        self._connection = connection
        self._clock = clock
