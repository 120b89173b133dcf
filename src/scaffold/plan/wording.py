"""Words for messages: names in a row, problems and texts on one line, what an unknown word may have meant."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from scaffold.core.legible import few

COMPARISONS = 20_000
"""How many pairs of words are compared before no more suggestions are made: a plan full of faults stays quick."""

LISTED = 5
"""How many names, or problems, are written out in a message."""

SHOWN = 60
"""How many characters of a text are written out in a message."""


def listed(names: Sequence[str]) -> str:
    """Return the names in backticks, separated by commas; of many, the first and how many more there are."""
    return few([f"`{name}`" for name in names], LISTED)


def shown(text: str) -> str:
    """Return any text in backticks, on one line, printable, and its end cut off where it is long."""
    short = text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
    return f"`{''.join(c if c.isprintable() else ascii(c)[1:-1] for c in short)}`"


def in_one(problems: Iterable[tuple[str, str]]) -> tuple[str, str]:
    """Return what is wrong and what to do about it, a text each; of many problems the first and how many more."""
    found = list(problems)
    more = f" (and {len(found) - LISTED} more)" if len(found) > LISTED else ""
    fixes = dict.fromkeys(fix for _, fix in found[:LISTED])
    return "; ".join(what for what, _ in found[:LISTED]) + more, " ".join(fixes)


class Spelling:
    """Known words, to find the one that is closest to an unknown one."""

    def __init__(self, known: Iterable[str]) -> None:
        """Take the words; repeated ones count once."""
        self._known = tuple(dict.fromkeys(known))
        self._comparisons = COMPARISONS

    def hint(self, word: str) -> str:
        """Return `Did you mean ...? ` with a blank at its end, or nothing where no word is close."""
        self._comparisons -= len(self._known)
        close = get_close_matches(word, self._known, n=1) if self._comparisons >= 0 else []
        return f"Did you mean `{close[0]}`? " if close else ""
