"""Three-way merge of lines. Pure."""

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import TypeVar

from msgspec import Struct

from scaffold.landing.conflicts.not_mergeable import NotMergeable

Line = TypeVar("Line", bound=Hashable)
MAX_PAIRS = 2_000_000
"""How many pairs of equal lines two versions may have where they differ: some seconds of work."""


def merge_union(base: str, ours: str, theirs: str) -> str:
    """Return the text with the lines of both sides where both changed it, ours first.

    Empty lines that both add at the beginning or at the end of one place come once. Each line ends in a newline.
    """
    merged: list[str] = []
    versions = [[f"{line}\n" for line in text.split("\n")[:-1]] for text in (base, ours, theirs)]
    for was, mine, other in _merge_regions(*versions):
        chosen = _choose_lines(was, mine, other)
        merged += _union_region(was, mine, other) if chosen is None else chosen
    return "".join(merged)


def _union_region(was: Sequence[str], mine: Sequence[str], other: Sequence[str]) -> Sequence[str]:
    """Return the lines that both sides added in one place, or put in the place of the same lines."""
    if any(line.strip() and (line in mine or line in other) for line in was):
        raise NotMergeable("both sides change lines that were there, which a union of added lines does not cover")
    start = _empty_at_start(mine, other)
    end = _empty_at_start(mine[start:][::-1], other[start:][::-1])
    first, second = mine[: len(mine) - end], other[start:]
    # Where an empty line ends each paragraph, it also ends the first of the two.
    ends = mine[len(mine) - end :]
    return [*first, *(ends[:1] if "\n" in [*first, *second[: len(second) - end]] else ()), *second]


class _Stable(Struct, frozen=True):
    """Lines that are the same in all versions: where they begin in each, and how many there are."""

    base: int
    ours: int
    theirs: int
    size: int


def merge_lines(base: Sequence[str], ours: Sequence[str], theirs: Sequence[str]) -> tuple[str, ...] | None:
    """Return the lines with the changes of both sides; None if they change the same or adjacent lines differently."""
    merged: list[str] = []
    for was, mine, other in _merge_regions(base, ours, theirs):
        chosen = _choose_lines(was, mine, other)
        if chosen is None:
            return None
        merged += chosen
    return tuple(merged)


def _merge_regions(
    base: Sequence[str], ours: Sequence[str], theirs: Sequence[str]
) -> Iterator[tuple[Sequence[str], Sequence[str], Sequence[str]]]:
    """Yield the three versions of each region, in order: those that a side changed, and those that none did."""
    at = _Stable(0, 0, 0, 0)
    for stable in _stable_regions(base, ours, theirs):
        yield base[at.base : stable.base], ours[at.ours : stable.ours], theirs[at.theirs : stable.theirs]
        same = base[stable.base : stable.base + stable.size]
        yield same, same, same
        at = _Stable(stable.base + stable.size, stable.ours + stable.size, stable.theirs + stable.size, 0)


def _choose_lines(base: Sequence[str], ours: Sequence[str], theirs: Sequence[str]) -> Sequence[str] | None:
    """Return what becomes of lines that one side or both changed; None if both did, and differently."""
    if ours in (theirs, base):
        return theirs
    if theirs == base:
        return ours
    # Adjacent lines, each changed by one side.
    if len(base) == len(ours) == len(theirs) and len(base) > 1:
        lines = [_choose_lines([b], [o], [t]) for b, o, t in zip(base, ours, theirs, strict=True)]
        return None if None in lines else [line for each in lines for line in each or ()]
    return None


def _stable_regions(base: Sequence[str], ours: Sequence[str], theirs: Sequence[str]) -> Iterator[_Stable]:
    """Yield the regions that neither side changed, in order, and an empty one at the end."""
    in_ours, in_theirs = matches(base, ours), matches(base, theirs)
    left = right = 0
    while left < len(in_ours) and right < len(in_theirs):
        (at_a, ours_at, size_a), (at_b, theirs_at, size_b) = in_ours[left], in_theirs[right]
        start, end = max(at_a, at_b), min(at_a + size_a, at_b + size_b)
        if start < end:
            yield _Stable(start, ours_at + start - at_a, theirs_at + start - at_b, end - start)
        # The one that ends first cannot meet any later one of the other side.
        if at_a + size_a < at_b + size_b:
            left += 1
        else:
            right += 1
    yield _Stable(len(base), len(ours), len(theirs), 0)


def matches(base: Sequence[Line], side: Sequence[Line]) -> list[tuple[int, int, int]]:
    """Return the runs of equal lines or other parts: where they begin in each, and how many there are."""
    start = _same_at_start(base, side)
    end = _same_at_start(base[start:][::-1], side[start:][::-1])
    # Most lines of a large file are at its changed part's ends; what is left is compared in quadratic time.
    inner = base[start : len(base) - end], side[start : len(side) - end]
    alike = Counter(inner[1])
    if sum(alike[line] for line in inner[0]) > MAX_PAIRS:
        raise NotMergeable("too many of its lines are alike")
    found = SequenceMatcher(None, *inner, autojunk=False).get_matching_blocks()
    between = [(start + at, start + there, size) for at, there, size in found]
    runs = [(0, 0, start), *between, (len(base) - end, len(side) - end, end)]
    return [run for run in runs if run[2]]


def _empty_at_start(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many lines both begin with that are the same and empty: another line belongs to what is beside it."""
    same = _same_at_start(one, other)
    return next((at for at, line in enumerate(one[:same]) if line.strip()), same)


def _same_at_start(one: Sequence[Line], other: Sequence[Line]) -> int:
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
