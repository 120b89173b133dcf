"""The schema's history: numbered SQL files, applied once each, never edited after a release.

A file that only adds keeps the schema readable for older programs. One that changes what they read says so:
`UPDATE schema_version SET readable_from = N`, with its own number.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct

from scaffold.core.errors import StoreEmpty, StoreTrouble
from scaffold.host.identity import alive
from scaffold.store.columns import OWNER, Calendar, stamp
from scaffold.store.connection import Connection, Driver
from scaffold.store.refusals import HOW_TO_BEGIN

MIGRATIONS = Path(__file__).with_name("migrations")

READ_VERSION = "SELECT MAX(version) AS version FROM schema_version"
READABLE_FROM = "SELECT MAX(readable_from) AS version FROM schema_version"
WRITE_VERSION = "INSERT INTO schema_version (version, applied_at) VALUES (:version, :at)"


class Schema(Struct, frozen=True):
    """What one kind of database is made of."""

    migrations: Path
    """A folder of numbered files."""
    in_use: str
    """A statement that gives each `owner` who works on the database, and the `deed`: what it does there."""


def open_connection(driver: Driver, schema: Schema, clock: Calendar, *, create: bool) -> Connection:
    """Return a connection to a database that is up to date; the driver is closed if there is none to be had.

    See `prepare` for when that is so.
    """
    connection = Connection(driver)
    with ExitStack() as on_failure:
        on_failure.callback(driver.close)
        prepare(connection, schema, clock, create=create)
        on_failure.pop_all()
    return connection


def prepare(connection: Connection, schema: Schema, clock: Calendar, *, create: bool) -> None:
    """Bring the database up to date, safe against others who do the same; a backup is made before.

    What is foreign, unreadably newer or, unless `create`, empty is left untouched: StoreTrouble. A newer database
    that this program can still read is opened for reading only, unless `create` asks for more.
    """
    driver = connection.driver
    steps = sorted(schema.migrations.glob("*.sql"))
    version = _version(connection)
    if version == 0 and not create:
        what = f"{driver.name}: the database is empty"
        raise StoreEmpty(what, f"{HOW_TO_BEGIN}, or put back a copy of the file.")
    if version > len(steps):
        _only_read(connection, version, known=len(steps), writing=create)
    elif driver.read_only is None:
        driver.make_ready()
        if _version(connection) < len(steps):
            _migrate(connection, clock, steps, schema.in_use)
    elif version < len(steps):
        what = f"{driver.name}: the database is of an older scaffold and cannot be brought up to date"
        raise StoreTrouble(what, f"Make it writable, or use that version of scaffold; {driver.read_only}.")


def _version(connection: Connection) -> int:
    """Return the schema's version, 0 for an empty database."""
    tables = connection.driver.tables()
    if not tables:
        return 0
    if "schema_version" not in tables:
        what = f"{connection.driver.name}: this database belongs to another program"
        raise StoreTrouble(what, "Nothing was changed. Move it away, or name another place, then repeat the command.")
    return int(connection.rows(READ_VERSION)[0]["version"])


def _only_read(connection: Connection, version: int, *, known: int, writing: bool) -> None:
    newer = f"a newer scaffold wrote this database (schema {version}, this one knows {known})"
    if writing or connection.rows(READABLE_FROM)[0]["version"] > known:
        what = f"{connection.driver.name}: {newer}"
        raise StoreTrouble(what, "Nothing was changed. Use that version of scaffold, or a newer one.")
    connection.driver.read_only = newer


def _migrate(connection: Connection, clock: Calendar, steps: Sequence[Path], in_use: str) -> None:
    with connection.transaction(durable=True):
        version = _version(connection)
        if 0 < version < len(steps):
            _refuse_under_work(connection, in_use)
            connection.driver.back_up(version)
        for number in range(version + 1, len(steps) + 1):
            _apply(connection, steps[number - 1])
            connection.write(WRITE_VERSION, version=number, at=stamp(clock.now()))


def _refuse_under_work(connection: Connection, in_use: str) -> None:
    """Return if nobody works on the database; a program must not find the tables changed beneath it."""
    for row in connection.rows(in_use):
        owner = OWNER.read(row["owner"])
        if alive(owner):
            name = connection.driver.name
            what = f"{name}: an older scaffold (process {owner.pid}) {row['deed']} on this database"
            raise StoreTrouble(what, "Nothing was changed. Let it end, or stop it, then repeat the command.")


def _apply(connection: Connection, step: Path) -> None:
    """Run the file's statements one by one, as a script would end the transaction."""
    for statement in step.read_text(encoding="utf-8").split(";\n"):
        if statement.strip():
            connection.write(statement)
