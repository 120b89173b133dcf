"""The dialect seam: what PostgreSQL wants said differently.

Every statement of this package names its placeholders `:name` and keeps to SQL that both databases
understand, so that a rewriting of single words is enough.
"""

import functools
import re

_PIECES = re.compile(r"'(?:[^']|'')*'|::|:(?P<name>[a-z_]+)|%|\bTEXT\b")


@functools.cache
def psycopg_style(statement: str) -> str:
    """Return `statement` with `:name` as `%(name)s` and `%` doubled; quoted text and `::` casts stay as they are.

    A column that is declared TEXT is told to sort by bytes, as SQLite does, whatever the server's language.
    """

    def piece(match: re.Match[str]) -> str:
        if match["name"]:
            return f"%({match['name']})s"
        return 'TEXT COLLATE "C"' if match[0] == "TEXT" else match[0].replace("%", "%%")

    return _PIECES.sub(piece, statement)
