"""The tier that the words of a request call for, and how much they say for it."""

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

KEYWORDS: Mapping[str, tuple[str, ...]] = {
    "architect": (
        *("refactor", "redesign", "migrate", "rewrite", "overhaul", "restructure"),
        *("auth", "authentication", "security", "infra", "schema", "database"),
    ),
    "quick": ("fix typo", "typo", "rename", "formatting", "comment"),
    "scout": (
        *("find", "search", "list", "check", "where", "what", "show", "count", "look", "scan", "locate", "which"),
        *("docs", "readme", "documentation"),
    ),
}
"""Whole words, or several in a row. Of several tiers that a request names, the first in this order wins."""
DEFAULT_TIER = "builder"
LEAST_CONFIDENCE = 0.6
"""With less, the tier is the default one."""
MOST_CONFIDENCE = 0.95
"""A table of words is never certain."""
WORDS_PER_KEYWORD = 12
"""For how many words of the request one keyword speaks."""
_WORD = re.compile(r"\w+")


class TierGuess(Struct, frozen=True, kw_only=True):
    """The tier for a request."""

    tier: str
    confidence: float
    """From 0 to 1; below LEAST_CONFIDENCE, the confidence in `leaning`."""
    words: tuple[str, ...] = ()
    """The keywords in the request that decided, in their order."""
    leaning: str = ""
    """The tier that these words name, if the confidence in it is too low; else empty."""


class _Hit(Struct, frozen=True):
    tier: str
    keyword: str
    weight: int


def guess_tier(texts: Sequence[str]) -> TierGuess:
    """Return the tier for a request, or for a list of titles of tasks; any texts give one of the table.

    The confidence is a product of three numbers:

    - 0.95, because words alone do not tell how much work there is;
    - agreement: (2 + s) / 3, where s is the share of the keywords found that name this tier. The first word of a text
      is mostly its verb, so a keyword there counts twice. Half for one tier and half for another gives 0.83. However
      many words name another tier, this alone leaves the order of the table in force;
    - span: one keyword speaks for 12 words. A request of 24 words with a single keyword has 0.5.

    Without any keyword, it is the confidence that nothing was overlooked: from 0.6 for no words to 0.9 for 12 or more.
    """
    count = sum(len(_split_words(text)) for text in texts)
    hits = [hit for text in texts for hit in _find_keywords(_split_words(text))]
    if not hits:
        return TierGuess(tier=DEFAULT_TIER, confidence=round(0.6 + 0.3 * min(1.0, count / WORDS_PER_KEYWORD), 2))
    named = {hit.tier for hit in hits}
    # The order of the table decides, not the count: one `refactor` outweighs several `find`.
    tier = next(each for each in KEYWORDS if each in named)
    mine = [hit for hit in hits if hit.tier == tier]
    share = sum(hit.weight for hit in mine) / sum(hit.weight for hit in hits)
    span = min(1.0, WORDS_PER_KEYWORD * len(mine) / count)
    confidence = round(MOST_CONFIDENCE * (2 + share) / 3 * span, 2)
    words = tuple(dict.fromkeys(hit.keyword for hit in mine))
    if confidence < LEAST_CONFIDENCE:
        # The words are kept: the user is shown what was found and not trusted.
        return TierGuess(tier=DEFAULT_TIER, confidence=confidence, words=words, leaning=tier)
    return TierGuess(tier=tier, confidence=confidence, words=words)


def _split_words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _find_keywords(words: Sequence[str]) -> Iterator[_Hit]:
    """Yield the keywords in a text, the longest at each place; each word counts once."""
    at = 0
    while at < len(words):
        begun = (
            (tier, keyword)
            for keyword, tier in _BY_FIRST_WORD.get(words[at], ())
            if list(words[at : at + len(keyword.split())]) == keyword.split()
        )
        found = max(begun, key=lambda each: len(each[1].split()), default=None)
        if found is not None:
            # The first word of a request is mostly its verb.
            yield _Hit(*found, weight=2 if at == 0 else 1)
        at += len(found[1].split()) if found else 1


# Built once: a request is looked up word by word.
def _by_first_word() -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    for tier, keywords in KEYWORDS.items():
        for keyword in keywords:
            found.setdefault(keyword.split()[0], []).append((keyword, tier))
    return found


_BY_FIRST_WORD = _by_first_word()
