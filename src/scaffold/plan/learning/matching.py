"""Which learnings fit what an attempt is about, or how it failed."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from scaffold.core.learning import Learning
from scaffold.plan.learning.words import terms_of, words_of

ENOUGH = 0.5
"""The share of a condition's words that have to be in the text."""
MIN_WORDS = 2
"""How many of them at least; a condition of one word needs that one."""
MAX_TERMS = 80
"""Words that are looked for in the store."""
NOTHING_NEAR: Mapping[str, float] = {}


class Situation(Struct, frozen=True):
    """The situation for which learnings are looked up."""

    text: str
    """The task, or what the failed checks showed."""
    files: tuple[str, ...] = ()
    """The paths and globs that the action may change; empty if unknown."""
    fingerprint: str = ""
    """Of the failure; empty if nothing has failed."""

    def terms(self) -> Sequence[str]:
        """Return the words to look for, the first of them first."""
        return terms_of(self.text)[:MAX_TERMS]


class Match(Struct, frozen=True):
    """A learning that fits, and how well, from 0 to 1."""

    learning: Learning
    relevance: float


def matches(
    learnings: Iterable[Learning], situation: Situation, near: Mapping[str, float] = NOTHING_NEAR
) -> tuple[Match, ...]:
    """Return the learnings that fit, the best first; preferences always do.

    `near` says by id how near those are in meaning that fit in any words.
    """
    words = frozenset(words_of(situation.text))
    found = [
        Match(each, max(relevance(each, situation, words), near.get(each.id, 0.0) * concerns(each, situation)))
        # A near meaning counts only within the learning's scope.
        for each in learnings
    ]
    fitting = [each for each in found if each.relevance > 0]
    return tuple(sorted(fitting, key=lambda each: (-each.relevance, each.learning.id)))


def relevance(learning: Learning, situation: Situation, words: frozenset[str]) -> float:
    """Return the fit of a learning to a situation with these words, from 0 (none) to 1."""
    if not concerns(learning, situation):
        return 0.0
    # The same failure again is the best reason there is.
    if learning.fingerprint and learning.fingerprint == situation.fingerprint:
        return 1.0
    if learning.preference:
        return 1.0
    needed = words_of(learning.triple.condition)
    shared = [word for word in needed if word in words]
    # One common word is not a match, unless the condition has no other.
    enough = len(shared) >= min(MIN_WORDS, len(needed)) and bool(shared)
    share = len(shared) / len(needed) if needed else 0.0
    return share if enough and share >= ENOUGH else 0.0


def concerns(learning: Learning, situation: Situation) -> bool:
    """Return whether the situation is within the learning's scope: one without files may be in any folder."""
    if learning.scope != "module" or not situation.files:
        return True
    folder = learning.module.strip("/")
    paths = (path.strip("/") for path in situation.files)
    # Of a glob, what is before its first wildcard; it may be around the folder as well as in it.
    fixed = (path.partition("*")[0].rstrip("/") if "*" in path else path for path in paths)
    return any(f"{each}/".startswith(f"{folder}/") or f"{folder}/".startswith(f"{each}/".lstrip("/")) for each in fixed)
