"""The dialect seam: what SQLite and PostgreSQL want said differently.

Every statement of this package names its placeholders `:name` and keeps to SQL that both
databases understand; what cannot be shared stands here and nowhere else.
"""

import re

BEGIN_WRITE = "BEGIN IMMEDIATE"
"""SQLite takes its one write lock at once, so that no transaction fails halfway for want of it."""

TABLES = "SELECT name FROM sqlite_master WHERE type = 'table'"

DATA_VERSION = "PRAGMA data_version"

_PIECES = re.compile(r"'(?:[^']|'')*'|::|:(?P<name>[a-z_]+)|%")


def psycopg_style(statement: str) -> str:
    """Return `statement` with `:name` as `%(name)s` and `%` doubled; quoted text and `::` casts stay as they are."""

    def piece(match: re.Match[str]) -> str:
        name = match["name"]
        return f"%({name})s" if name else match[0].replace("%", "%%")

    return _PIECES.sub(piece, statement)
