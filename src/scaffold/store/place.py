"""Where a store lies, and which driver opens it."""

import importlib
from pathlib import Path

from msgspec import Struct

from scaffold.store.connection import Driver
from scaffold.store.sqlite import Sqlite


class Server(Struct, frozen=True):
    """A PostgreSQL server, and the schema on it that belongs to one repository alone."""

    url: str
    """`postgresql://...`, as libpq understands it; it may hold a password and is never shown."""
    schema: str
    """Lower-case letters, digits and underscores, at most 63."""


Place = Path | Server
"""A file for SQLite, or a schema on a PostgreSQL server."""

POSTGRES = "scaffold.store.postgres:Postgres"
"""Loaded when it is called for only: its driver alone takes longer to import than all of `scaffold status` may."""


def connect(place: Place, *, create: bool, patience_s: float) -> Driver:
    """Open the database at `place`; without `create` one that is not there is StoreTrouble.

    `patience_s` is how long a change waits for another process's transaction.
    """
    if isinstance(place, Path):
        return Sqlite(place, create=create, patience_s=patience_s)
    module, _, name = POSTGRES.partition(":")
    driver: Driver = getattr(importlib.import_module(module), name)(place, patience_s=patience_s)
    return driver
