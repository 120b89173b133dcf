"""Join rankings of the same items by reciprocal rank, which needs no scores that compare."""

from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")

K = 10
"""How little the first places count more than later ones."""


def fuse_weighted(*rankings: Sequence[tuple[Item, float]], k: int = K) -> tuple[Item, ...]:
    """Return the items of all rankings, the best first: each place counts weight / (k + place)."""
    scores: dict[Item, float] = {}
    for ranking in rankings:
        for place, (item, weight) in enumerate(ranking, start=1):
            scores[item] = scores.get(item, 0.0) + weight / (k + place)
    return tuple(sorted(scores, key=lambda item: -scores[item]))


def fuse(*rankings: Sequence[Item], k: int = K) -> tuple[Item, ...]:
    """Return the items of all rankings, the best first: each place counts 1 / (k + place).

    Of equal ones, the one that the earlier ranking has first. Source: Cormack, Clarke and Buettcher, SIGIR 2009.
    """
    scores: dict[Item, float] = {}
    for ranking in rankings:
        for place, item in enumerate(dict.fromkeys(ranking), start=1):
            scores[item] = scores.get(item, 0.0) + 1 / (k + place)
    return tuple(sorted(scores, key=lambda item: -scores[item]))
