"""The gateways to a run's tables that record an event with each change."""

from scaffold.store.driver.columns import TimeSource
from scaffold.store.driver.connection import Connection
from scaffold.store.driver.gateway import TableGateway
from scaffold.store.run.events import Events


class RunTableGateway(TableGateway):
    """A gateway whose changes are recorded in `events`, in the same transaction."""

    def __init__(self, connection: Connection, clock: TimeSource, events: Events) -> None:
        super().__init__(connection, clock)
        self._events = events
