"""Hints which known word an unknown one may stand for; apart, as `difflib` takes long to load."""

from collections.abc import Iterable
from difflib import get_close_matches

MAX_COMPARISONS = 20_000
"""Limit on word comparisons, after which no more hints are given; keeps a plan full of errors fast."""


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
