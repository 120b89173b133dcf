"""SQL dialects: translates statements to what PostgreSQL expects.

All statements of this package name their placeholders `:name` and use SQL that both databases understand, so only
single words need to be rewritten.
"""

import functools
import re

_PIECES = re.compile(r"'(?:[^']|'')*'|::|:(?P<name>[a-z_]+)|%|\bTEXT\b")


@functools.cache
def psycopg_style(statement: str) -> str:
    """Return `statement` with `:name` as `%(name)s` and `%` doubled; quoted text and `::` casts stay as they are.

    TEXT columns get the collation "C": they sort by bytes, as in SQLite, whatever the server's locale.
    """

    def piece(match: re.Match[str]) -> str:
        if match["name"]:
            return f"%({match['name']})s"
        return 'TEXT COLLATE "C"' if match[0] == "TEXT" else match[0].replace("%", "%%")

    return _PIECES.sub(piece, statement)
