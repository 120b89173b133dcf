"""The words by which memories are looked for, in any script."""

import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise

from scaffold.plan.learning.words import terms_of

MOST_WORDS = 80
MOST_PARTS = 24
MAX_CHARS = 4_000
"""What is read of a query: the beginning of a long message says what it is about."""
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua4cf\uac00-\ud7af\U00020000-\U0003ffff]+"
)
"""Thai, Lao, Burmese, Khmer, Japanese, Chinese, Yi, and Korean, whose words have endings."""
_TATWEEL = "\u0640"
"""It makes an Arabic word longer, and is no part of it."""


def search_terms(text: str) -> Sequence[str]:
    """Return the words of a query, without those that say nothing."""
    start = f"{_beginning(text)} {_plain(text)}"
    # Full-text search keeps letters such as `ß` that `casefold` replaces.
    lowered = (word for word in re.findall(r"[^\W_]+", start.lower()) if word != word.casefold())
    return tuple(dict.fromkeys((*terms_of(start), *lowered)))[:MOST_WORDS]


def search_parts(text: str) -> Sequence[str]:
    """Return pairs of characters of a query in scripts without spaces; a single character, or a symbol, by itself."""
    start = _beginning(text)
    runs = _UNSPACED.findall(start) + _UNSPACED.findall(_plain(text))
    pairs = (one + other for run in runs for one, other in pairwise(run))
    symbols = (each for each in start if unicodedata.category(each) == "So")
    return tuple(dict.fromkeys((*pairs, *(run for run in runs if len(run) == 1), *symbols)))[:MOST_PARTS]


def _beginning(text: str) -> str:
    return unicodedata.normalize("NFC", text[:MAX_CHARS])


def _plain(text: str) -> str:
    """Return the query with letters in their usual form: of full or half width, in ligatures, drawn out."""
    return unicodedata.normalize("NFKC", text[:MAX_CHARS]).replace(_TATWEEL, "")
