"""The store on PostgreSQL: one schema for each repository, one writer at a time, readers beside it."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn
from urllib.parse import urlsplit

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row

from scaffold.core.errors import StoreTrouble
from scaffold.store.connection import Value
from scaffold.store.dialect import psycopg_style
from scaffold.store.place import Server

CONNECT_TIMEOUT_S = 10
SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")
NUL, SHOWN_NUL = "\0", "\N{SYMBOL FOR NULL}"
"""PostgreSQL's text cannot hold a NUL; it is stored as the sign for one."""

REVISION = "revision"
"""A table of one row: every transaction raises its number first, and so waits for the transaction before it."""

MAKE_REVISION = """
CREATE TABLE IF NOT EXISTS revision (number BIGINT NOT NULL);
INSERT INTO revision SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM revision)
"""
ONE_AT_A_TIME = "SELECT pg_advisory_xact_lock(7321)"
"""For those who make schemas; the number only has to be nobody else's."""

BEGIN = "BEGIN; SET LOCAL synchronous_commit = off; UPDATE revision SET number = number + 1"
BEGIN_DURABLE = "BEGIN; SET LOCAL synchronous_commit = on; UPDATE revision SET number = number + 1"

TABLES = "SELECT tablename AS name FROM pg_tables WHERE schemaname = :schema"
IS_READY = "SELECT to_regclass(:table) IS NOT NULL AS ready"
DATA_VERSION = "SELECT number FROM revision"

_REACH = "Check SCAFFOLD_DATABASE_URL, and that the server runs and lets you in, then repeat the command."
_WAIT = "Wait for it or end it, then repeat the command."
_EXPLANATIONS: Mapping[str, tuple[str, str]] = {
    "08": ("the server cannot be reached", _REACH),
    "23": ("this contradicts what is stored", "Nothing was changed; use another name or id."),
    "25006": ("the database cannot be written", "Name a server that takes changes, not a standby."),
    "28": ("access to the database is denied", _REACH),
    "40P01": ("another process keeps the database locked", _WAIT),
    "42501": ("access to the database is denied", _REACH),
    "53100": (
        "the server's disk is full",
        "Free some space there, then repeat the command; nothing half-done was kept.",
    ),
    "53": ("the server is at its limits", "Wait for other work to end, then repeat the command."),
    "55P03": ("another process keeps the database locked", _WAIT),
    "57": ("the server is shutting down or ended this command", _REACH),
    "58": ("the server's disk failed to read or write", "Check the server, then repeat the command."),
    "XX": ("the database is damaged", "Nothing was changed. Ask whoever runs the server to look at its log."),
}
"""By SQLSTATE: the whole code, or its class."""


class Postgres:
    """A connection to one schema. Implements `connection.Driver`."""

    def __init__(self, server: Server, *, patience_s: float) -> None:
        """Connect; the schema need not exist. `patience_s` is how long to wait for another writer."""
        if not SCHEMA.fullmatch(server.schema):
            raise ValueError(f"no name for a schema: {server.schema!r}")
        self.name = _shown(server)
        self.read_only: str | None = None
        self._schema = server.schema
        self._own_commits = 0
        try:
            self._raw = psycopg.connect(
                server.url,
                autocommit=True,
                row_factory=dict_row,
                connect_timeout=CONNECT_TIMEOUT_S,
                client_encoding="UTF8",
                application_name="scaffold",
            )
        except psycopg.Error as error:
            self._fail(error)
        patience_ms = max(1, int(patience_s * 1000))
        self._script(f"SET search_path TO {self._schema}; SET lock_timeout = {patience_ms}")

    @property
    def in_transaction(self) -> bool:
        """Whether `begin` was called and its transaction is not over; a lost connection has none."""
        status = self._raw.pgconn.transaction_status
        return status not in {TransactionStatus.IDLE, TransactionStatus.UNKNOWN}

    def rows(self, statement: str, values: Mapping[str, Value], /) -> list[Any]:
        """Carry a statement out and return every row it gives."""
        return self._execute(statement, values).fetchall()

    def change(self, statement: str, values: Mapping[str, Value], /) -> int:
        """Carry a statement out and return how many rows it changed."""
        return self._execute(statement, values).rowcount

    def change_each(self, statement: str, rows: Iterable[Mapping[str, Value]], /) -> int:
        """Carry the same statement out for each of `rows` and return how many rows it changed in all."""
        cursor = self._raw.cursor()
        try:
            cursor.executemany(psycopg_style(statement), [_storable(row) for row in rows])
        except psycopg.Error as error:
            self._fail(error)
        return cursor.rowcount

    def begin(self, *, durable: bool) -> None:
        """Take the lock on the revision's row: PostgreSQL hands it to those who wait in the order they came."""
        try:
            self._script(BEGIN_DURABLE if durable else BEGIN)
        except StoreTrouble:
            if self.in_transaction:
                self.roll_back()
            raise

    def commit(self) -> None:
        """Keep everything since `begin`; RuntimeError if a statement failed meanwhile, for then nothing can be kept."""
        if self._raw.pgconn.transaction_status == TransactionStatus.INERROR:
            raise RuntimeError("a statement of this transaction failed: it cannot be committed any more")
        self._script("COMMIT")
        self._own_commits += 1

    def roll_back(self) -> None:
        """Undo everything since `begin`."""
        self._script("ROLLBACK")

    def tables(self) -> frozenset[str]:
        """Return the names of the tables in the schema but the revision's."""
        return frozenset(row["name"] for row in self.rows(TABLES, {"schema": self._schema})) - {REVISION}

    def make_ready(self) -> None:
        """Make the schema and its revision, unless they are there; others who do the same are waited for."""
        if self.rows(IS_READY, {"table": f"{self._schema}.{REVISION}"})[0]["ready"]:
            return
        self._script(f"{ONE_AT_A_TIME}; CREATE SCHEMA IF NOT EXISTS {self._schema}; {MAKE_REVISION}")

    def back_up(self, version: int) -> None:
        """Do nothing: a migration is one transaction here, and copies are made by whoever runs the server."""

    def data_version(self) -> int:
        """Return how many transactions of others there were so far."""
        return int(self.rows(DATA_VERSION, {})[0]["number"]) - self._own_commits

    def erase(self) -> None:
        """Drop the schema with all that is in it; one that is gone already is no trouble."""
        self._script(f"DROP SCHEMA IF EXISTS {self._schema} CASCADE")

    def close(self) -> None:
        """Give the connection back; an open transaction is rolled back."""
        self._raw.close()

    def _execute(self, statement: str, values: Mapping[str, Value]) -> psycopg.Cursor[dict[str, Any]]:
        try:
            return self._raw.execute(psycopg_style(statement), _storable(values))
        except psycopg.Error as error:
            self._fail(error)

    def _script(self, statements: str) -> None:
        """Carry several statements out in one round trip, in one transaction where they begin none themselves."""
        try:
            self._raw.execute(statements, prepare=False)
        except psycopg.Error as error:
            self._fail(error)

    def _fail(self, error: psycopg.Error) -> NoReturn:
        """Turn what the driver raises into StoreTrouble; wrong use of it stays a bug."""
        code = error.sqlstate or ("08" if isinstance(error, psycopg.OperationalError) else "")
        explanation = _EXPLANATIONS.get(code) or _EXPLANATIONS.get(code[:2])
        if explanation is None:
            raise error
        what, fix = explanation
        raise StoreTrouble(f"{self.name}: {what} ({' '.join(str(error).split())})", fix) from error


def _storable(values: Mapping[str, Value]) -> dict[str, Value]:
    return {
        name: value.replace(NUL, SHOWN_NUL) if isinstance(value, str) and NUL in value else value
        for name, value in values.items()
    }


def _shown(server: Server) -> str:
    """Return the address without user, password and options."""
    parts = urlsplit(server.url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path} (schema {server.schema})"
