"""Schema migrations: numbered SQL files, each applied once and never edited after a release.

A migration that only adds keeps the schema readable for older programs. One that changes what they read must run
`UPDATE schema_history SET readable_from = N`, with its own number.
"""

import re
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct

from scaffold.core.errors import StoreEmpty, StoreError
from scaffold.host.process_identity import is_alive
from scaffold.store.driver.columns import OWNER, TimeSource, format_time
from scaffold.store.driver.connection import Connection, DatabaseDriver
from scaffold.store.row_errors import START_HINT

MIGRATIONS = Path(__file__).parents[1] / "migrations"

READ_VERSION = "SELECT MAX(version) AS version FROM schema_history"
READABLE_FROM = "SELECT MAX(readable_from) AS version FROM schema_history"
PRE_RELEASE_TABLES = frozenset({"schema_version", "schema_migration"})
"""Version tables of the schemas before the first release: their numbers say nothing about the present migrations."""
_ONLY = re.compile(r"^-- only: (\w+)$", re.MULTILINE)
"""A comment before a statement that is for one kind of database."""
WRITE_VERSION = "INSERT INTO schema_history (version, applied_at) VALUES (:version, :at)"


class SchemaSource(Struct, frozen=True):
    """The schema of one kind of database."""

    migrations: Path
    """Folder of the numbered SQL files."""
    in_use: str
    """Query for the processes using the database: columns `owner` and `activity` (what it is doing)."""


def open_connection(driver: DatabaseDriver, schema: SchemaSource, clock: TimeSource, *, create: bool) -> Connection:
    """Return a connection to a migrated database; if `migrate` raises, the driver is closed."""
    connection = Connection(driver)
    with ExitStack() as on_failure:
        on_failure.callback(driver.close)
        migrate(connection, schema, clock, create=create)
        on_failure.pop_all()
    return connection


def migrate(connection: Connection, schema: SchemaSource, clock: TimeSource, *, create: bool) -> None:
    """Migrate the database to the current schema, safe against concurrent migrations; makes a backup first.

    Raises StoreError, and changes nothing, if the database is foreign, too new to read or, unless `create`, empty. A
    newer database that this program can still read is opened read-only, unless `create` is set.
    """
    driver = connection.driver
    steps = sorted(schema.migrations.glob("*.sql"))
    version = _schema_version(connection)
    # A command that only reads must not make a database out of an empty file.
    if version == 0 and not create:
        what = f"{driver.name}: the database is empty"
        raise StoreEmpty(what, f"{START_HINT}, or restore a backup of the file.")
    if version > len(steps):
        newer = f"a newer scaffold wrote this database (schema {version}, this version supports up to {len(steps)})"
        if create or connection.rows(READABLE_FROM)[0]["version"] > len(steps):
            what = f"{driver.name}: {newer}"
            raise StoreError(what, "Nothing was changed. Use that version of scaffold, or a newer one.")
        driver.read_only = newer
    elif driver.read_only is None:
        driver.make_ready()
        # Read without the lock, so that an up-to-date database is opened without waiting for a writer.
        if _schema_version(connection) < len(steps):
            _apply_pending(connection, clock, steps, schema.in_use)
    elif version < len(steps):
        what = f"{driver.name}: the database was written by an older scaffold and cannot be migrated"
        raise StoreError(what, f"Make it writable, or use that version of scaffold; {driver.read_only}.")


def _schema_version(connection: Connection) -> int:
    tables = connection.driver.tables()
    if not tables:
        return 0
    # Before the next check, which would take it for the database of another program.
    if not PRE_RELEASE_TABLES.isdisjoint(tables):
        what = f"{connection.driver.name}: a pre-release of scaffold wrote this database, and this one cannot read it"
        raise StoreError(what, "Nothing was changed. Move the file away; the next command creates a new database.")
    if "schema_history" not in tables:
        what = f"{connection.driver.name}: this database belongs to another program"
        raise StoreError(what, "Nothing was changed. Move it away or use another location, then repeat the command.")
    return int(connection.rows(READ_VERSION)[0]["version"])


def _apply_pending(connection: Connection, clock: TimeSource, steps: Sequence[Path], in_use: str) -> None:
    with connection.transaction(durable=True):
        version = _schema_version(connection)
        # `version` was read with the lock held: another process may have migrated while this one waited for it.
        if 0 < version < len(steps):
            # The tables of a live process must not change while it runs.
            for row in connection.rows(in_use):
                if is_alive(owner := OWNER.read(row["owner"])):
                    name = connection.driver.name
                    what = f"{name}: an older scaffold (process {owner.pid}) {row['activity']} on this database"
                    fix = "Nothing was changed. Wait for it to end or stop it, then repeat the command."
                    raise StoreError(what, fix)
            connection.driver.back_up(version)
        for number in range(version + 1, len(steps) + 1):
            # One by one, since a script would commit the transaction.
            for statement in steps[number - 1].read_text(encoding="utf-8").split(";\n"):
                only = _ONLY.search(statement)
                if statement.strip() and (only is None or only[1] == connection.driver.dialect):
                    connection.write(statement)
            connection.write(WRITE_VERSION, version=number, at=format_time(clock.now()))
