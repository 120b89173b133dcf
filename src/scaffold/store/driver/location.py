"""The location of a store, and the driver that opens it."""

import importlib
from pathlib import Path

from msgspec import Struct

from scaffold.store.driver.connection import DatabaseDriver
from scaffold.store.driver.sqlite import SqliteDriver


class PostgresLocation(Struct, frozen=True):
    """A PostgreSQL server, and the schema on it that belongs to one repository."""

    url: str
    """`postgresql://...`, in libpq's format; may contain a password, so it is never shown."""
    schema: str
    """Lower-case letters, digits and underscores, at most 63 characters."""


StoreLocation = Path | PostgresLocation
"""A SQLite file, or a schema on a PostgreSQL server."""

POSTGRES_DRIVER = "scaffold.store.driver.postgres:PostgresDriver"
"""Imported only when used: importing psycopg takes longer than all of `scaffold status` may."""


def open_driver(location: StoreLocation, *, create: bool, timeout_s: float) -> DatabaseDriver:
    """Open the database at `location`; raise StoreError if it is missing, unless `create`.

    `timeout_s` is how long a write waits for another process's transaction.
    """
    if isinstance(location, Path):
        return SqliteDriver(location, create=create, timeout_s=timeout_s)
    module, _, name = POSTGRES_DRIVER.partition(":")
    driver: DatabaseDriver = getattr(importlib.import_module(module), name)(location, timeout_s=timeout_s)
    return driver
