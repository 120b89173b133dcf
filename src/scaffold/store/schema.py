"""The schema's history: numbered SQL files, applied once each, never edited after a release.

A file that only adds keeps the schema readable for older programs. One that changes what they read says so:
`UPDATE schema_version SET readable_from = N`, with its own number.
"""

from collections.abc import Sequence
from pathlib import Path

from scaffold.core.errors import StoreEmpty, StoreTrouble
from scaffold.host.identity import alive
from scaffold.store.columns import PROCESS, Calendar, stamp
from scaffold.store.connection import Connection

MIGRATIONS = Path(__file__).with_name("migrations")

READ_VERSION = "SELECT MAX(version) AS version FROM schema_version"
READABLE_FROM = "SELECT MAX(readable_from) AS version FROM schema_version"
WRITE_VERSION = "INSERT INTO schema_version (version, applied_at) VALUES (:version, :at)"
OWNERS = "SELECT id, owner FROM run WHERE owner IS NOT NULL ORDER BY position"


def prepare(connection: Connection, clock: Calendar, *, create: bool, migrations: Path = MIGRATIONS) -> None:
    """Bring the database up to date, safe against others who do the same; a backup is made before.

    What is foreign, unreadably newer or, unless `create`, empty is left untouched: StoreTrouble. A newer database
    that this program can still read is opened for reading only, unless `create` asks for more.
    """
    driver = connection.driver
    steps = sorted(migrations.glob("*.sql"))
    version = _version(connection)
    if version == 0 and not create:
        what = f"{driver.name}: the database is empty"
        raise StoreEmpty(what, "Start a run with `scaffold run`, or put back a copy of the file.")
    if version > len(steps):
        _only_read(connection, version, known=len(steps), writing=create)
    elif driver.read_only is None:
        driver.make_ready()
        if _version(connection) < len(steps):
            _migrate(connection, clock, steps)
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


def _migrate(connection: Connection, clock: Calendar, steps: Sequence[Path]) -> None:
    with connection.transaction(durable=True):
        version = _version(connection)
        if 0 < version < len(steps):
            _refuse_under_a_run(connection)
            connection.driver.back_up(version)
        for number in range(version + 1, len(steps) + 1):
            _apply(connection, steps[number - 1])
            connection.write(WRITE_VERSION, version=number, at=stamp(clock.now()))


def _refuse_under_a_run(connection: Connection) -> None:
    """Return if nobody carries out a run; a program must not find the tables changed beneath it."""
    for row in connection.rows(OWNERS):
        owner = PROCESS.read(row["owner"])
        if owner is not None and alive(owner):
            name = connection.driver.name
            what = f"{name}: an older scaffold (process {owner.pid}) carries out run {row['id']} on this database"
            raise StoreTrouble(what, "Nothing was changed. Let it end, or stop it, then repeat the command.")


def _apply(connection: Connection, step: Path) -> None:
    """Run the file's statements one by one, as a script would end the transaction."""
    for statement in step.read_text(encoding="utf-8").split(";\n"):
        if statement.strip():
            connection.write(statement)
