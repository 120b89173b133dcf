"""The store: one database, one repository for each aggregate, transactions owned by the caller."""

from contextlib import AbstractContextManager
from pathlib import Path

from scaffold.store.actions import Actions
from scaffold.store.attempts import Attempts
from scaffold.store.baselines import Baselines
from scaffold.store.columns import Calendar
from scaffold.store.connection import Connection
from scaffold.store.events import Events
from scaffold.store.facts import Facts
from scaffold.store.goals import Goals
from scaffold.store.inbox import Inbox
from scaffold.store.intents import Intents
from scaffold.store.messages import Messages
from scaffold.store.place import Place, connect
from scaffold.store.reservations import Reservations
from scaffold.store.runs import Runs
from scaffold.store.schema import MIGRATIONS, Schema, open_connection
from scaffold.store.seals import Seals
from scaffold.store.turns import Turns
from scaffold.store.wishes import Wishes

IN_USE = """
SELECT 'carries out run ' || id AS deed, owner FROM run WHERE owner IS NOT NULL ORDER BY position
"""


class Store:
    """What is true of a repository's runs. Reads work anywhere, changes only inside `with store.transaction():`.

    A store belongs to the thread that opened it and does not survive a fork: each process opens its own.
    """

    def __init__(self, connection: Connection, clock: Calendar) -> None:
        self._connection = connection
        self.name = connection.driver.name
        """The file, or the server's address without its secrets, for people."""
        self.events = Events(connection, clock)
        self.runs = Runs(connection, clock, self.events)
        self.facts = Facts(connection, clock, self.events)
        self.goals = Goals(connection, clock, self.events, self.facts)
        self.actions = Actions(connection, clock, self.events, self.facts)
        self.attempts = Attempts(connection, clock, self.events)
        self.seals = Seals(connection, clock, self.events)
        self.baselines = Baselines(connection, clock)
        self.turns = Turns(connection, clock, self.events)
        self.wishes = Wishes(connection, clock)
        self.intents = Intents(connection, clock)
        self.inbox = Inbox(connection, clock, self.events, self.actions)
        self.messages = Messages(connection, clock)
        self.reservations = Reservations(connection, clock)

    @classmethod
    def open(
        cls,
        place: Place,
        *,
        clock: Calendar,
        create: bool = True,
        patience_s: float = 10.0,
        migrations: Path = MIGRATIONS,
    ) -> "Store":
        """Open the database at `place`, with its parents where `create` allows it, and bring its schema up to date.

        `patience_s` is how long a change waits for another process's transaction. StoreTrouble if the database is
        missing (without `create`), out of reach, broken, foreign, newer than can be read, or older while a run is
        carried out on it; none of these is touched. With `create` it must be writable, too; without, one that can
        only be read is opened so, and its transactions are StoreTrouble.
        """
        driver = connect(place, create=create, patience_s=patience_s)
        return cls(open_connection(driver, Schema(migrations, IN_USE), clock, create=create), clock)

    def transaction(self, *, durable: bool = False) -> AbstractContextManager[None]:
        """Return a block whose changes are committed together at its end, or not at all if it raises.

        `durable` is for what precedes or records an effect outside the database: it survives a power cut, too.
        Blocks do not nest: RuntimeError. StoreTrouble if another process holds the database for longer than patience.
        """
        return self._connection.transaction(durable=durable)

    def data_version(self) -> int:
        """Return a number that differs from the last one given exactly if another connection committed since."""
        return self._connection.driver.data_version()

    def erase(self) -> None:
        """Remove from a server all that is stored, for good; a file is left to whoever removes its folder."""
        self._connection.driver.erase()

    def close(self) -> None:
        """Give the database back; a store is of no use afterwards."""
        self._connection.driver.close()
