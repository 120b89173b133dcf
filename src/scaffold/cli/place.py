"""Where a repository's state lies: in its git directory, or on the server that SCAFFOLD_DATABASE_URL names."""

import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from scaffold.core.errors import StoreTrouble, UsageProblem
from scaffold.store.place import Place, Server

DATABASE_URL = "SCAFFOLD_DATABASE_URL"
SCHEMES = ("postgresql://", "postgres://")

_MEND = "Put back a copy of that file; without it nobody knows which schema is this repository's."


def database_path(common_dir: Path) -> Path:
    """Return the file for a repository's state: shared by its worktrees, out of reach of `git clean`."""
    return common_dir / "scaffold" / "state.db"


def place_if_any(common_dir: Path, environ: Mapping[str, str]) -> Place | None:
    """Return where the repository's state lies, None where nothing was ever run; no server is asked."""
    url = _url(environ)
    if url is None:
        path = database_path(common_dir)
        return path if path.exists() else None
    schema = _schema(common_dir)
    return None if schema is None else Server(url, schema)


def place_for(common_dir: Path, environ: Mapping[str, str]) -> Place:
    """Return where the repository's state lies, or is to lie from its first run on."""
    url = _url(environ)
    if url is None:
        return database_path(common_dir)
    return Server(url, _schema(common_dir) or _new_schema(common_dir))


def _url(environ: Mapping[str, str]) -> str | None:
    url = environ.get(DATABASE_URL) or None
    if url is not None and not (url.startswith(SCHEMES) and _readable(url)):
        fix = f"Give it as postgresql://USER@HOST/DATABASE, or unset {DATABASE_URL} to keep the state in a file."
        raise UsageProblem(f"{DATABASE_URL} does not name a PostgreSQL server", fix)
    return url


def _readable(url: str) -> bool:
    try:
        urlsplit(url)
    except ValueError:
        return False
    return True


def _schema_file(common_dir: Path) -> Path:
    return common_dir / "scaffold" / "schema"


def _schema(common_dir: Path) -> str | None:
    """Return the name of the schema that is this repository's on whatever server; None before its first run."""
    path = _schema_file(common_dir)
    try:
        name = path.read_text("utf-8").strip()
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise StoreTrouble(f"{path}: the schema's name cannot be read ({error})", _MEND) from error
    if not re.fullmatch(r"scaffold_[a-z0-9_]{1,50}", name):
        raise StoreTrouble(f"{path}: this is not the name of a schema of ours", _MEND)
    return name


def _new_schema(common_dir: Path) -> str:
    """Choose a name and keep it in the repository; if another process is first, theirs counts.

    It is chosen by chance: paths repeat on other machines, and a repository that moves takes its file along.
    """
    project = common_dir.parent if common_dir.name == ".git" else common_dir
    readable = re.sub(r"[^a-z0-9]+", "_", project.name.lower()).strip("_")[:30] or "repository"
    name = f"scaffold_{readable}_{secrets.token_hex(4)}"
    path = _schema_file(common_dir)
    draft = path.with_name(f".schema.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(f"{name}\n", "utf-8")
        try:
            os.link(draft, path)
        except FileExistsError:
            return _schema(common_dir) or name
        finally:
            draft.unlink()
    except OSError as error:
        fix = "Check who may write there, then repeat the command."
        raise StoreTrouble(f"{path}: the schema's name cannot be kept ({error.strerror})", fix) from error
    return name
