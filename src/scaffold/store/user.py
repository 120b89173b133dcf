"""The user's own database: what belongs to no repository, and what all processes of a user share."""

from contextlib import AbstractContextManager
from pathlib import Path

from scaffold.store.accounts import Accounts
from scaffold.store.columns import Calendar
from scaffold.store.connection import Connection
from scaffold.store.conversations import Conversations
from scaffold.store.endpoints import Endpoints
from scaffold.store.messages import Messages
from scaffold.store.reservations import Reservations
from scaffold.store.schema import Schema, open_connection
from scaffold.store.sqlite import Sqlite
from scaffold.store.subagents import Subagents
from scaffold.store.trust import Trust

MIGRATIONS = Path(__file__).with_name("user_migrations")
SESSIONS = "sessions"
"""The scope of messages: any session of a user can write to any other."""
IN_USE = """
SELECT 'goes on with conversation ' || id AS deed, owner FROM conversation WHERE owner IS NOT NULL ORDER BY id
"""


def user_database(data: Path) -> Path:
    """Return where the database lies in the user's directory for data."""
    return data / "user.db"


class UserStore:
    """What one user keeps. Reads work anywhere, changes only inside `with store.transaction():`.

    A store belongs to the thread that opened it and does not survive a fork: each process opens its own.
    """

    def __init__(self, connection: Connection, clock: Calendar) -> None:
        self._connection = connection
        self.name = connection.driver.name
        """The file, for people."""
        self.conversations = Conversations(connection, clock)
        self.reservations = Reservations(connection, clock)
        self.accounts = Accounts(connection)
        self.endpoints = Endpoints(connection)
        self.messages = Messages(connection, clock)
        self.subagents = Subagents(connection, clock)
        self.trust = Trust(connection, clock)

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        clock: Calendar,
        create: bool = True,
        patience_s: float = 10.0,
        migrations: Path = MIGRATIONS,
    ) -> "UserStore":
        """Open the database at `path`, as `Store.open` does; the file and its directory are the user's alone.

        StoreTrouble if it is missing (without `create`), out of reach, broken, foreign, newer than can be read, or
        older while somebody has a conversation open; none of these is touched.
        """
        driver = Sqlite(path, create=create, patience_s=patience_s, private=True)
        return cls(open_connection(driver, Schema(migrations, IN_USE), clock, create=create), clock)

    def transaction(self, *, durable: bool = False) -> AbstractContextManager[None]:
        """Return a block whose changes are committed together at its end, or not at all; see `Store.transaction`."""
        return self._connection.transaction(durable=durable)

    def data_version(self) -> int:
        """Return a number that differs from the last one given exactly if another connection committed since."""
        return self._connection.driver.data_version()

    def close(self) -> None:
        """Give the database back; a store is of no use afterwards."""
        self._connection.driver.close()
