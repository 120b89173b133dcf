"""The words that carry the meaning of a text, in a form in which variants of a word are equal."""

import re
from collections.abc import Sequence

MAX_CHARS = 60_000
"""The part of a text that is read, in characters."""
_WORD = re.compile(r"[^\W_]+")
_STOP = frozenset(
    _WORD.findall(
        "a an and any are as at be been but by can could did do does for from had has have how i if in into is it its "
        "may must no nor not of on or our shall should so some than that the their them then there these they this to "
        "too was we were what when where which while who why will with would you your"
    )
)
NEGATIONS = frozenset(_WORD.findall("avoid cannot don dont never no not stop without"))
"""Words that turn an advice into its opposite; `don` is what is left of "don't"."""
_ENDINGS = ("ing", "ed", "es", "s")
# How many letters are left at least without an ending.
_SHORTEST = 4


def words_of(text: str) -> Sequence[str]:
    """Return the distinct words that carry meaning, in order, without their endings."""
    # Single letters and digits are in any text.
    return tuple(dict.fromkeys(_without_ending(word) for word in terms_of(text) if len(word) > 1))


def terms_of(text: str) -> Sequence[str]:
    """Return the distinct words that carry meaning, in order, as they are written but for their case."""
    return tuple(dict.fromkeys(word for word in _WORD.findall(text[:MAX_CHARS].casefold()) if word not in _STOP))


def is_negative(text: str) -> bool:
    """Return whether an advice says what not to do."""
    return not NEGATIONS.isdisjoint(_WORD.findall(text.casefold()))


def similarity(one: Sequence[str], other: Sequence[str]) -> float:
    """Return the share of words that are in both texts, from 0 to 1."""
    # They decide what an advice says, not what it is about.
    first, second = {*one} - NEGATIONS, {*other} - NEGATIONS
    return len(first & second) / len(first | second) if first or second else 0.0


def _without_ending(word: str) -> str:
    for ending in _ENDINGS:
        # A short word without its ending is often another word.
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST:
            return word.removesuffix(ending)
    return word
