"""The store: one database, one repository for each aggregate, transactions owned by the caller."""

from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from scaffold.core.errors import StoreTrouble
from scaffold.core.ports import Clock
from scaffold.store import dialect, schema
from scaffold.store.actions import Actions
from scaffold.store.attempts import Attempts
from scaffold.store.connection import Connection
from scaffold.store.events import Events
from scaffold.store.facts import Facts
from scaffold.store.goals import Goals
from scaffold.store.intents import Intents
from scaffold.store.runs import Runs


class Store:
    """What is true of a repository's runs. Reads work anywhere, changes only inside `with store.transaction():`.

    A store belongs to the thread that opened it and does not survive a fork: each process opens its own.
    """

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self.events = Events(connection, clock)
        self.runs = Runs(connection, clock, self.events)
        self.facts = Facts(connection, clock, self.events)
        self.goals = Goals(connection, clock, self.events, self.facts)
        self.actions = Actions(connection, clock, self.events, self.facts)
        self.attempts = Attempts(connection, clock, self.events)
        self.intents = Intents(connection, clock)

    @classmethod
    def open(cls, path: Path, *, clock: Clock, create: bool = True, patience_s: float = 10.0) -> "Store":
        """Open the database at `path`, with its parents where `create` allows it, and bring its schema up to date.

        `patience_s` is how long a change waits for another process's transaction. StoreTrouble if the file is
        missing (without `create`), out of reach, broken, foreign, or of a newer scaffold; none of these is touched.
        """
        _find_place(path, create=create)
        connection = Connection(path, create=create, patience_s=patience_s)
        with ExitStack() as on_failure:
            on_failure.callback(connection.close)
            schema.prepare(connection, clock, create=create)
            on_failure.pop_all()
        return cls(connection, clock)

    def transaction(self, *, durable: bool = False) -> AbstractContextManager[None]:
        """Return a block whose changes are committed together at its end, or not at all if it raises.

        `durable` is for what precedes or records an effect outside the database: it survives a power cut, too.
        Blocks do not nest: RuntimeError. StoreTrouble if another process holds the database for longer than patience.
        """
        return self._connection.transaction(durable=durable)

    def data_version(self) -> int:
        """Return a number that differs from the last one given exactly if another connection committed since."""
        return int(self._connection.rows(dialect.DATA_VERSION)[0][0])

    def close(self) -> None:
        """Give the database back; a store is of no use afterwards."""
        self._connection.close()


def _find_place(path: Path, *, create: bool) -> None:
    try:
        if create:
            path.parent.mkdir(parents=True, exist_ok=True)
        missing = not create and not path.exists()
    except OSError as error:
        what = f"{path}: the database is out of reach ({error.strerror})"
        raise StoreTrouble(what, "Check its directory and who may write there, then repeat the command.") from error
    if missing:
        raise StoreTrouble(f"{path}: there is no database yet", "Start a run with `scaffold run`; it makes one.")
