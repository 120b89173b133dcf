"""Text for messages: quoted names, short lists and problem summaries."""

from collections.abc import Iterable, Sequence

from scaffold.core.printable_text import join_limited

MAX_LISTED = 5
"""How many names or problems a message lists."""
MAX_QUOTED_CHARS = 60
"""How many characters of a text a message quotes."""


def quoted_list(names: Sequence[str]) -> str:
    """Return the names in backticks, separated by commas; of many, the first ones and a count."""
    return join_limited([f"`{name}`" for name in names], MAX_LISTED)


def quoted(text: str) -> str:
    """Return the text in backticks, on one line, with unprintable characters escaped, and cut if long."""
    short = text if len(text) <= MAX_QUOTED_CHARS else f"{text[:MAX_QUOTED_CHARS]}..."
    # Messages go to terminals and models, and their text may come from anywhere.
    return f"`{''.join(c if c.isprintable() else ascii(c)[1:-1] for c in short)}`"


def summarize_problems(problems: Iterable[tuple[str, str]]) -> tuple[str, str]:
    """Return (what, fix): the first problems and a count of the others, and the distinct fixes."""
    # One fix often answers several problems.
    found = list(problems)
    more = f" (and {len(found) - MAX_LISTED} more)" if len(found) > MAX_LISTED else ""
    fixes = dict.fromkeys(fix for _, fix in found[:MAX_LISTED])
    return "; ".join(what for what, _ in found[:MAX_LISTED]) + more, " ".join(fixes)
