"""Text for messages: quoted names, short lists, problem summaries and spelling hints."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from scaffold.core.printable_text import join_limited

MAX_COMPARISONS = 20_000
"""Limit on word comparisons, after which no more hints are given; keeps a plan full of errors fast."""
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


class SpellingHints:
    """Known words, used to find the closest one to an unknown word."""

    def __init__(self, known: Iterable[str]) -> None:
        """Take the known words; duplicates count once."""
        self._known = tuple(dict.fromkeys(known))
        self._comparisons = MAX_COMPARISONS

    def hint(self, word: str) -> str:
        """Return `Did you mean ...? ` with a trailing space; empty if no known word is close."""
        closest = self.closest(word)
        return f"Did you mean `{closest}`? " if closest else ""

    def closest(self, word: str, similarity: float = 0.6) -> str:
        """Return the known word that is most similar, and at least by `similarity` of 1; empty if there is none."""
        self._comparisons -= len(self._known)
        close = get_close_matches(word, self._known, n=1, cutoff=similarity) if self._comparisons >= 0 else []
        return close[0] if close else ""
