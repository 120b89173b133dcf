"""The location of a store: the git directory, or the server named by SCAFFOLD_DATABASE_URL."""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from scaffold.core.errors import StoreError, UsageError

DATABASE_URL = "SCAFFOLD_DATABASE_URL"
SCHEMES = ("postgresql://", "postgres://")
_RESTORE_HINT = "Restore that file from a backup; it is the only record of this repository's schema name."


class PostgresLocation(Struct, frozen=True):
    """A PostgreSQL server, and the schema on it that belongs to one repository."""

    url: str
    """`postgresql://...`, in libpq's format; may contain a password, so it is never shown."""
    schema: str
    """Lower-case letters, digits and underscores, at most 63 characters."""


StoreLocation = Path | PostgresLocation
"""A SQLite file, or a schema on a PostgreSQL server."""


def database_path(common_dir: Path) -> Path:
    """Return the state file of a repository: shared by its worktrees and safe from `git clean`."""
    return common_dir / "scaffold" / "state.db"


def existing_state_location(common_dir: Path, environ: Mapping[str, str]) -> StoreLocation | None:
    """Return the location of the repository's state; None if there was no run yet. Does not contact a server."""
    _require_no_links(common_dir)
    url = _database_url(environ)
    if url is None:
        path = database_path(common_dir)
        return path if path.exists() else None
    schema = _read_schema(common_dir)
    return None if schema is None else PostgresLocation(url, schema)


def state_location(common_dir: Path, environ: Mapping[str, str]) -> StoreLocation:
    """Return the location of the repository's state; on a server, chooses and stores a schema name if necessary."""
    _require_no_links(common_dir)
    url = _database_url(environ)
    if url is None:
        return database_path(common_dir)
    return PostgresLocation(url, _read_schema(common_dir) or _new_schema(common_dir))


def _database_url(environ: Mapping[str, str]) -> str | None:
    url = environ.get(DATABASE_URL) or None
    with suppress(ValueError):  # from `urlsplit`, e.g. for a bracket that is not closed
        if url is None or (url.startswith(SCHEMES) and urlsplit(url)):
            return url
    fix = f"Write it as postgresql://USER@HOST/DATABASE, or unset {DATABASE_URL} to keep the state in a file."
    raise UsageError(f"{DATABASE_URL} does not name a PostgreSQL server", fix)


def _require_no_links(common_dir: Path) -> None:
    # A received repository may have some, and what we write would change what they lead to.
    folder = common_dir / "scaffold"
    for path in (folder, *(folder.iterdir() if folder.is_dir() else ())):
        if path.is_symlink():
            raise StoreError(f"{path} is a symbolic link, which is not followed", "Look where it leads, and remove it.")
        # Whoever reads a named pipe waits for ever.
        if path.is_fifo() or path.is_char_device():
            raise StoreError(f"{path} is a named pipe or a device", "Remove it.")


def _schema_file(common_dir: Path) -> Path:
    return common_dir / "scaffold" / "schema"


def _read_schema(common_dir: Path) -> str | None:
    """Return the name of the repository's schema on any server; None before its first run."""
    path = _schema_file(common_dir)
    try:
        name = path.read_text("utf-8").strip()
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise StoreError(f"{path}: the schema's name cannot be read ({error})", _RESTORE_HINT) from error
    if not re.fullmatch(r"scaffold_[a-z0-9_]{1,50}", name):
        raise StoreError(f"{path}: this is not a valid schema name", _RESTORE_HINT)
    return name


def _new_schema(common_dir: Path) -> str:
    """Choose a schema name and store it in the repository; if another process was faster, return its name.

    The name has a random part, because paths repeat on other machines and repositories move.
    """
    project = common_dir.parent if common_dir.name == ".git" else common_dir
    readable = re.sub(r"[^a-z0-9]+", "_", project.name.lower()).strip("_")[:30] or "repository"
    name = f"scaffold_{readable}_{os.urandom(4).hex()}"
    path = _schema_file(common_dir)
    draft = path.with_name(f".schema.{os.urandom(4).hex()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(f"{name}\n", "utf-8")
        try:
            # Unlike a rename, a link fails if the name exists, so the first of several processes wins. Readers never
            # see half a name.
            os.link(draft, path)
        except FileExistsError:
            return _read_schema(common_dir) or name
        finally:
            draft.unlink()
    except OSError as error:
        fix = "Check the directory's permissions, then repeat the command."
        raise StoreError(f"{path}: the schema's name cannot be stored ({error.strerror})", fix) from error
    return name
