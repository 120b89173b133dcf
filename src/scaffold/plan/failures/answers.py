"""The answers to questions that have only a few: a word, and what follows it."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

KILL, WAIT = "kill", "wait"
EXTENSION: Final = 0.5
"""The share of its time by which an attempt is extended: once automatically, then for each `wait`."""

ANSWERS: Final = {
    KILL: "end it now; its work is pinned, and it counts as a failure",
    WAIT: "give it half of its time more; you are asked again",
}


SOFT_TIMEOUT: Final = "soft_timeout"
"""Key in the detail of an inbox item that asks whether an attempt is to go on; the value counts such questions."""
CHOICES: Final = "choices"
"""Key in the detail of an inbox item: the words that an answer may begin with, each with its meaning."""
CONTEXT: Final = "context"
"""Key in its detail: what is to be known for an answer, in lines."""


class ChosenAnswer(Struct, frozen=True):
    """An answer that is one of the choices."""

    word: str
    rest: str = ""
    """What follows the word, e.g. a hint."""


def chosen_answer(choices: Mapping[str, str], text: str) -> ChosenAnswer | None:
    """Return the choice that the text begins with, ignoring case; None if there is none."""
    # People write `retry:` and `Retry, with ...`.
    first, _, rest = text.strip().partition(" ")
    word = first.rstrip(":,.;").casefold()
    return ChosenAnswer(word, rest.strip()) if word in choices else None


def choices_text(choices: Mapping[str, str]) -> str:
    """Return the choices as lines for people."""
    width = max(map(len, choices), default=0)
    return "\n".join(f"{word:<{width}}  {meaning}" for word, meaning in choices.items())


def reserve_s(timeout_s: float, share: float) -> float | None:
    """Return the seconds left when the question comes, at this share of the time used; None if it never comes."""
    # A share of 1 leaves no time in which a human could answer.
    return timeout_s * (1 - share) if share < 1 else None


def extension_s(timeout_s: float, extensions: int) -> float:
    """Return the seconds that `extensions` add."""
    return timeout_s * EXTENSION * extensions
