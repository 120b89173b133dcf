"""The schema's history: numbered SQL files, applied once each, never edited after a release."""

from importlib import resources
from importlib.resources.abc import Traversable

from scaffold.core.errors import StoreTrouble
from scaffold.core.ports import Clock
from scaffold.store import dialect
from scaffold.store.columns import stamp
from scaffold.store.connection import Connection

READ_VERSION = "SELECT MAX(version) AS version FROM schema_version"
WRITE_VERSION = "INSERT INTO schema_version (version, applied_at) VALUES (:version, :at)"


def prepare(connection: Connection, clock: Clock, *, create: bool) -> None:
    """Bring the database up to date, safe against others who do the same.

    What is foreign, newer than this program or, unless `create`, empty is left untouched: StoreTrouble.
    """
    steps = _steps()
    if _version(connection, latest=len(steps)) == 0 and not create:
        what = f"{connection.path}: the database is empty"
        raise StoreTrouble(what, "Start a run with `scaffold run`, or put back a copy of the file.")
    connection.use_write_ahead_log()
    if _version(connection, latest=len(steps)) == len(steps):
        return
    with connection.transaction(durable=True):
        for number in range(_version(connection, latest=len(steps)) + 1, len(steps) + 1):
            _apply(connection, steps[number - 1])
            connection.write(WRITE_VERSION, version=number, at=stamp(clock.now()))


def _steps() -> list[Traversable]:
    """Return the files in order; the first brings the schema to version 1, and so on."""
    folder = resources.files("scaffold.store") / "migrations"
    return sorted((entry for entry in folder.iterdir() if entry.name.endswith(".sql")), key=lambda entry: entry.name)


def _version(connection: Connection, *, latest: int) -> int:
    """Return the schema's version, 0 for an empty database."""
    tables = {row["name"] for row in connection.rows(dialect.TABLES)}
    if not tables:
        return 0
    if "schema_version" not in tables:
        what = f"{connection.path}: this database belongs to another program"
        raise StoreTrouble(what, "Nothing was changed. Move the file away, then repeat the command.")
    version = int(connection.rows(READ_VERSION)[0]["version"])
    if version > latest:
        what = f"{connection.path}: a newer scaffold wrote this database (schema {version}, this one knows {latest})"
        raise StoreTrouble(what, "Nothing was changed. Use that version of scaffold, or a newer one.")
    return version


def _apply(connection: Connection, step: Traversable) -> None:
    """Run the file's statements one by one, as a script would end the transaction."""
    for statement in step.read_text(encoding="utf-8").split(";\n"):
        if statement.strip():
            connection.write(statement)
