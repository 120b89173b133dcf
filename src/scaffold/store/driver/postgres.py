"""The PostgreSQL driver: one schema per repository, one writer at a time, concurrent readers."""

import functools
import re
import time
from collections.abc import Callable, Iterable, Mapping
from threading import Event
from typing import Any, NoReturn
from urllib.parse import urlsplit

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row

from scaffold.core.errors import StoreError, StoreUnavailable
from scaffold.store.driver.connection import ColumnValue
from scaffold.store.driver.location import PostgresLocation

CONNECT_TIMEOUT_S = 10
MIN_PAUSE_S, MAX_PAUSE_S = 0.2, 5.0
"""Between tries to connect to a server that is away; doubled each time."""
SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")
NUL, SHOWN_NUL = "\0", "\N{SYMBOL FOR NULL}"
"""PostgreSQL text cannot contain NUL, so it is stored as the symbol for it."""

REVISION = "revision"
"""A table with one row. Each transaction starts by incrementing its number, which makes writers wait their turn."""

MAKE_REVISION = """
CREATE TABLE IF NOT EXISTS revision (number BIGINT NOT NULL);
INSERT INTO revision SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM revision)
"""
SCHEMA_LOCK = "SELECT pg_advisory_xact_lock(7321)"
"""Serialises the creation of schemas; the number is arbitrary but must be unique to this use."""

BEGIN = "BEGIN; SET LOCAL synchronous_commit = off; UPDATE revision SET number = number + 1"
BEGIN_DURABLE = "BEGIN; SET LOCAL synchronous_commit = on; UPDATE revision SET number = number + 1"
BEGIN_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

TABLES = "SELECT tablename AS name FROM pg_tables WHERE schemaname = :schema"
IS_READY = "SELECT to_regclass(:table) IS NOT NULL AS ready"
DATA_VERSION = "SELECT number FROM revision"

_REACH = "Check SCAFFOLD_DATABASE_URL, and that the server is running and accepts your login, then repeat the command."
_WAIT = "Wait for it or end it, then repeat the command."
_EXPLANATIONS: Mapping[str, tuple[str, str]] = {
    "08": ("the server cannot be reached", _REACH),
    "23": ("this conflicts with stored data", "Nothing was changed; use another name or id."),
    "25006": ("the database is read-only", "Use a primary server, not a standby."),
    "28": ("access to the database is denied", _REACH),
    "40P01": ("another process holds the database lock", _WAIT),
    "42501": ("access to the database is denied", _REACH),
    "53100": (
        "the server's disk is full",
        "Free some space there, then repeat the command; the transaction was rolled back.",
    ),
    "53": ("the server is out of resources", "Wait for other work to end, then repeat the command."),
    "55P03": ("another process holds the database lock", _WAIT),
    "57": ("the server is shutting down or cancelled this command", _REACH),
    "58": ("the server's disk failed to read or write", "Check the server, then repeat the command."),
    "XX": ("the database is corrupt", "Nothing was changed. Ask the server's administrator to check its log."),
}
"""By SQLSTATE: the full code, or its first two characters (the class)."""
_PASSING = frozenset({"08", "40P01", "53100", "53", "55P03", "57", "58"})
"""Those that may be over later."""

_TYPES = {"TEXT": 'TEXT COLLATE "C"', "BLOB": "BYTEA"}
_PIECES = re.compile(r"--[^\n]*|'(?:[^']|'')*'|::|:(?P<name>[a-z_][a-z0-9_]*)|%|\bTEXT\b|\bBLOB\b")


class PostgresDriver:
    """A connection to one schema. Implements `connection.DatabaseDriver`."""

    dialect = "postgres"

    def __init__(self, server: PostgresLocation, *, timeout_s: float, outage_s: float = 0.0) -> None:
        """Connect; the schema need not exist yet.

        `timeout_s` is how long to wait for another writer, `outage_s` how long to wait for a server that is away.
        """
        if not SCHEMA.fullmatch(server.schema):
            raise ValueError(f"invalid schema name: {server.schema!r}")
        parts = urlsplit(server.url)
        # Without user, password and options.
        self.name = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path} (schema {server.schema})"
        self.read_only: str | None = None
        self._schema = server.schema
        self._server = server
        # PostgreSQL takes a lock_timeout of 0 for no limit.
        self._timeout_ms = max(1, int(timeout_s * 1000))
        self._outage_s = outage_s
        self._own_commits = 0
        self._begun = False
        self._connect_in_time()

    def _connect_in_time(self) -> None:
        give_up_s = time.monotonic() + self._outage_s
        pause_s = MIN_PAUSE_S
        while True:
            try:
                return self._open_session()
            except StoreUnavailable:
                if time.monotonic() + pause_s > give_up_s:
                    raise
            Event().wait(pause_s)
            pause_s = min(2 * pause_s, MAX_PAUSE_S)

    def _open_session(self) -> None:
        try:
            self._raw = psycopg.connect(
                self._server.url,
                autocommit=True,
                row_factory=dict_row,
                connect_timeout=CONNECT_TIMEOUT_S,
                client_encoding="UTF8",
                application_name="scaffold",
            )
            session = f"SET search_path TO {self._schema}; SET lock_timeout = {self._timeout_ms}"
            self._raw.execute(session.encode(), prepare=False)
        except psycopg.Error as error:
            self._raise_store_error(error)

    def _reconnect_if_lost(self) -> None:
        """Connect again if the connection was lost.

        Not within a transaction: what it had done was rolled back, and the rest of it would be executed alone.
        """
        if self._raw.broken and not self._begun:
            self._connect_in_time()

    def _retry_if_lost(self, statement: Callable[[], psycopg.Cursor[dict[str, Any]]]) -> psycopg.Cursor[dict[str, Any]]:
        """Execute a statement; once more if it finds that the connection was lost before, so that nothing was done."""
        self._reconnect_if_lost()
        try:
            return statement()
        except psycopg.Error as error:
            if self._begun or not self._raw.broken:
                self._raise_store_error(error)
        self._reconnect_if_lost()
        try:
            return statement()
        except psycopg.Error as error:
            self._raise_store_error(error)

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open; False for a lost connection."""
        status = self._raw.pgconn.transaction_status
        return status not in {TransactionStatus.IDLE, TransactionStatus.UNKNOWN}

    def rows(self, statement: str, values: Mapping[str, ColumnValue], /) -> list[Any]:
        """Execute a statement and return all of its rows."""
        return self._execute_statement(statement, values).fetchall()

    def change(self, statement: str, values: Mapping[str, ColumnValue], /) -> int:
        """Execute a statement and return how many rows it changed."""
        return self._execute_statement(statement, values).rowcount

    def change_each(self, statement: str, rows: Iterable[Mapping[str, ColumnValue]], /) -> int:
        """Execute the statement for each of `rows` and return how many rows it changed in total."""
        cursor = self._raw.cursor()
        try:
            cursor.executemany(psycopg_style(statement), [_storable_values(row) for row in rows])
        except psycopg.Error as error:
            self._raise_store_error(error)
        return cursor.rowcount

    def attempt(self, statements: str, /) -> bool:
        """Execute statements within a transaction; undo them and return False if the server refuses."""
        try:
            with self._raw.transaction():
                self._raw.execute(statements, prepare=False)
        except psycopg.Error as error:
            if self._raw.broken:
                self._raise_store_error(error)
            return False
        return True

    def begin(self, *, durable: bool) -> None:
        """Lock the revision row; PostgreSQL grants the lock in the order of requests."""
        try:
            self._execute_script(BEGIN_DURABLE if durable else BEGIN)
            self._begun = True
        except StoreError:
            # BEGIN itself succeeded; the statement after it failed, which leaves an aborted transaction.
            if self.in_transaction:
                self.roll_back()
            raise

    def begin_snapshot(self) -> None:
        """Start a transaction that reads one version of the data and changes none."""
        self._execute_script(BEGIN_SNAPSHOT)
        self._begun = True

    def commit(self) -> None:
        """Commit everything since `begin`; raise RuntimeError if a statement failed: PostgreSQL would roll back."""
        if self._raw.pgconn.transaction_status == TransactionStatus.INERROR:
            raise RuntimeError("a statement of this transaction failed, so it cannot be committed")
        self._execute_script("COMMIT")
        # Only now: the number in the table counts committed transactions, and a rolled-back one leaves it as it was.
        self._own_commits += 1

    def roll_back(self) -> None:
        """Undo everything since `begin`."""
        self._execute_script("ROLLBACK")

    def ended(self) -> None:
        """Let the next statement connect again if the connection was lost."""
        self._begun = False

    def tables(self) -> frozenset[str]:
        """Return the names of the tables in the schema, without the revision table."""
        return frozenset(row["name"] for row in self.rows(TABLES, {"schema": self._schema})) - {REVISION}

    def make_ready(self) -> None:
        """Create the schema and its revision table if missing, one process at a time."""
        if self.rows(IS_READY, {"table": f"{self._schema}.{REVISION}"})[0]["ready"]:
            return
        # IF NOT EXISTS is not atomic in PostgreSQL: without the lock, two processes at once make one of them fail.
        self._execute_script(f"{SCHEMA_LOCK}; CREATE SCHEMA IF NOT EXISTS {self._schema}; {MAKE_REVISION}")

    def back_up(self, version: int) -> None:
        """Do nothing: a migration is one transaction here, and backups are up to the server's administrator."""

    def data_version(self) -> int:
        """Return how many transactions other connections have committed."""
        return int(self.rows(DATA_VERSION, {})[0]["number"]) - self._own_commits

    def rewrite_words(self, table: str) -> None:
        """Do nothing: the server reclaims space by itself."""

    def empty_log(self) -> bool:
        """Do nothing, and return True."""
        return True

    def erase(self) -> None:
        """Drop the schema with all of its data; does nothing if it is missing."""
        self._execute_script(f"DROP SCHEMA IF EXISTS {self._schema} CASCADE")

    def close(self) -> None:
        """Close the connection; an open transaction is rolled back."""
        self._raw.close()

    def _execute_statement(self, statement: str, values: Mapping[str, ColumnValue]) -> psycopg.Cursor[dict[str, Any]]:
        return self._retry_if_lost(lambda: self._raw.execute(psycopg_style(statement), _storable_values(values)))

    def _execute_script(self, statements: str) -> None:
        """Execute several statements in one round trip; in one transaction, unless they start one themselves."""
        # A prepared statement cannot contain several statements.
        self._retry_if_lost(lambda: self._raw.execute(statements, prepare=False))

    def _raise_store_error(self, error: psycopg.Error) -> NoReturn:
        """Raise psycopg's error as StoreError; errors that indicate a bug are raised unchanged."""
        # An error without a code did not come from the server: the connection could not be made, or was lost.
        code = error.sqlstate or ("08" if isinstance(error, psycopg.OperationalError) else "")
        known = code if code in _EXPLANATIONS else code[:2]
        if known not in _EXPLANATIONS:
            raise error
        what, fix = _EXPLANATIONS[known]
        kind = StoreUnavailable if known in _PASSING else StoreError
        raise kind(f"{self.name}: {what} ({' '.join(str(error).split())})", fix) from error


def _storable_values(values: Mapping[str, ColumnValue]) -> dict[str, ColumnValue]:
    return {
        name: value.replace(NUL, SHOWN_NUL) if isinstance(value, str) and NUL in value else value
        for name, value in values.items()
    }


@functools.cache
def psycopg_style(statement: str) -> str:
    """Return `statement` with `:name` as `%(name)s` and `%` doubled; comments, quoted text and `::` casts stay.

    TEXT columns get the collation "C": they sort by bytes, as in SQLite, whatever the server's locale. BLOB is BYTEA.
    """

    def piece(match: re.Match[str]) -> str:
        if match["name"]:
            return f"%({match['name']})s"
        return _TYPES.get(match[0]) or match[0].replace("%", "%%")

    return _PIECES.sub(piece, statement)
