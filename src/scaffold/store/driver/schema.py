"""Schema migrations: numbered SQL files, each applied once and never edited after a release.

A migration that only adds keeps the schema readable for older programs. One that changes what they read must run
`UPDATE schema_history SET readable_from = N`, with its own number.
"""

import re
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from msgspec import Struct

from scaffold.core.errors import StoreEmpty, StoreError
from scaffold.host.process_identity import is_alive
from scaffold.store.driver.columns import OWNER, TimeSource, format_time
from scaffold.store.driver.connection import Connection, DatabaseDriver, Row
from scaffold.store.driver.location import StoreLocation
from scaffold.store.driver.signature import ForeignUse, foreign_state, is_own, sign
from scaffold.store.driver.sqlite import IN_MEMORY, SqliteDriver
from scaffold.store.row_errors import START_HINT

MIGRATIONS = Path(__file__).parents[1] / "migrations"

READ_VERSION = "SELECT MAX(version) AS version FROM schema_history"
READABLE_FROM = "SELECT MAX(readable_from) AS version FROM schema_history"
PRE_RELEASE_TABLES = frozenset({"schema_version", "schema_migration"})
"""Version tables of the schemas before the first release: their numbers say nothing about the present migrations."""
_ONLY = re.compile(r"^-- only: (\w+)$", re.MULTILINE)
"""A comment before a statement that is for one kind of database."""
OBJECTS = """
SELECT type, name, tbl_name, sql FROM sqlite_master
WHERE sql IS NOT NULL AND NOT (type = 'table' AND name LIKE 'sqlite_stat%') ORDER BY type, name
"""
"""Statistics are SQLite's own."""
WRITE_VERSION = "INSERT INTO schema_history (version, applied_at) VALUES (:version, :at)"


class SchemaSource(Struct, frozen=True):
    """The schema of one kind of database."""

    migrations: Path
    """Folder of the numbered SQL files."""
    in_use: str
    """Query for the processes using the database: columns `owner` and `activity` (what it is doing)."""
    signed: StoreLocation | None = None
    """Where a database of this kind is that must be signed by its user; None if it lies where only the user writes."""
    foreign: ForeignUse = "refuse"


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
    newer database that this program can still read is opened read-only, unless `create` is set. So is one that another
    user made, if it is to be shown.
    """
    driver = connection.driver
    steps = sorted(schema.migrations.glob("*.sql"))
    tables = driver.tables()
    version = _schema_version(connection, tables)
    # A command that only reads must not make a database out of an empty file.
    if version == 0 and not create:
        what = f"{driver.name}: the database is empty"
        raise StoreEmpty(what, f"{START_HINT}, or restore a backup of the file.")
    if version and schema.signed is not None and not is_own(connection, schema.signed, tables):
        _check_foreign(connection, schema, schema.signed, steps[:version])
    if version > len(steps):
        newer = f"a newer scaffold wrote this database (schema {version}, this version supports up to {len(steps)})"
        if create or connection.rows(READABLE_FROM)[0]["version"] > len(steps):
            what = f"{driver.name}: {newer}"
            raise StoreError(what, "Nothing was changed. Use that version of scaffold, or a newer one.")
        driver.read_only = newer
    elif driver.read_only is None:
        driver.make_ready()
        # Without the lock, so that an up-to-date database is opened without waiting for a writer.
        if version < len(steps) or schema.foreign == "adopt":
            _apply_pending(connection, clock, steps, schema)
    elif version < len(steps) and schema.foreign != "show":
        what = f"{driver.name}: the database was written by an older scaffold and cannot be migrated"
        raise StoreError(what, f"Make it writable, or use that version of scaffold; {driver.read_only}.")


def _check_foreign(connection: Connection, schema: SchemaSource, place: StoreLocation, steps: Sequence[Path]) -> None:
    driver = connection.driver
    foreign = foreign_state(driver.name, place)
    if schema.foreign == "refuse":
        raise foreign
    # A trigger would go on writing for whoever made it, and a view can take forever to read.
    if driver.dialect == SqliteDriver.dialect and connection.rows(OBJECTS) != _objects_of(steps):
        what = f"{driver.name}: this database has other tables, views or triggers than scaffold makes"
        raise StoreError(what, "Nothing was changed. Move it away; the next command creates a new database.")
    if schema.foreign == "show":
        driver.read_only = connection.foreign = foreign.in_full


def _objects_of(steps: Sequence[Path]) -> list[Row]:
    with closing(SqliteDriver(IN_MEMORY, create=True, timeout_s=0)) as fresh:
        connection = Connection(fresh)
        with connection.transaction():
            for step in steps:
                _apply_step(connection, step)
        return connection.rows(OBJECTS)


def _schema_version(connection: Connection, tables: frozenset[str]) -> int:
    if not tables:
        return 0
    # Before the next check, which would take it for the database of another program.
    if not PRE_RELEASE_TABLES.isdisjoint(tables):
        what = f"{connection.driver.name}: a pre-release of scaffold wrote this database, and this one cannot read it"
        raise StoreError(what, "Nothing was changed. Move the file away; the next command creates a new database.")
    version = connection.rows(READ_VERSION)[0]["version"] if "schema_history" in tables else None
    if not isinstance(version, int) or version < 1:
        what = f"{connection.driver.name}: this database belongs to another program"
        raise StoreError(what, "Nothing was changed. Move it away or use another location, then repeat the command.")
    return version


def _apply_pending(connection: Connection, clock: TimeSource, steps: Sequence[Path], schema: SchemaSource) -> None:
    with connection.transaction(durable=True):
        version = _schema_version(connection, connection.driver.tables())
        # `version` was read with the lock held: another process may have migrated while this one waited for it.
        if 0 < version < len(steps):
            # The tables of a live process must not change while it runs.
            for row in connection.rows(schema.in_use):
                if is_alive(owner := OWNER.read(row["owner"])):
                    name = connection.driver.name
                    what = f"{name}: an older scaffold (process {owner.pid}) {row['activity']} on this database"
                    fix = "Nothing was changed. Wait for it to end or stop it, then repeat the command."
                    raise StoreError(what, fix)
            connection.driver.back_up(version)
        for number in range(version + 1, len(steps) + 1):
            _apply_step(connection, steps[number - 1])
            connection.write(WRITE_VERSION, version=number, at=format_time(clock.now()))
        # In the transaction that makes the tables: there is never a database that nobody has signed.
        if schema.signed is not None and (version == 0 or schema.foreign == "adopt"):
            sign(connection, schema.signed)


def _apply_step(connection: Connection, step: Path) -> None:
    # One by one, since a script would commit the transaction.
    for statement in step.read_text(encoding="utf-8").split(";\n"):
        only = _ONLY.search(statement)
        if statement.strip() and (only is None or only[1] == connection.driver.dialect):
            connection.write(statement)
