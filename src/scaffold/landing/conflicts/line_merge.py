"""Three-way merge of lines, and a check of any merge that shares nothing with how it was made. Pure."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher

from msgspec import Struct


def merge_union(base: str, ours: str, theirs: str) -> str:
    """Return the text with the lines of both sides where both changed it, ours first; a line of both comes once."""
    merged: list[str] = []
    versions = [text.splitlines(keepends=True) for text in (base, ours, theirs)]
    for was, mine, other in _regions(*versions):
        chosen = _choose(was, mine, other)
        if chosen is None:
            kept = [line for line in mine if line not in was or line in other]
            chosen = [*kept, *(line for line in other if line not in was and line not in mine)]
        merged += chosen
    return "".join(line if line.endswith("\n") else line + "\n" for line in merged)


class _Stable(Struct, frozen=True):
    """Lines that are the same in all versions: where they begin in each, and how many there are."""

    base: int
    ours: int
    theirs: int
    size: int


def merge_lines(base: Sequence[str], ours: Sequence[str], theirs: Sequence[str]) -> tuple[str, ...] | None:
    """Return the lines with the changes of both sides; None if they change the same or adjacent lines differently."""
    merged: list[str] = []
    for was, mine, other in _regions(base, ours, theirs):
        chosen = _choose(was, mine, other)
        if chosen is None:
            return None
        merged += chosen
    return tuple(merged)


def _regions(
    base: Sequence[str], ours: Sequence[str], theirs: Sequence[str]
) -> Iterator[tuple[Sequence[str], Sequence[str], Sequence[str]]]:
    """Yield the three versions of each region, in order: those that a side changed, and those that none did."""
    at = _Stable(0, 0, 0, 0)
    for stable in _stable_regions(base, ours, theirs):
        yield base[at.base : stable.base], ours[at.ours : stable.ours], theirs[at.theirs : stable.theirs]
        same = base[stable.base : stable.base + stable.size]
        yield same, same, same
        at = _Stable(stable.base + stable.size, stable.ours + stable.size, stable.theirs + stable.size, 0)


def _choose(base: Sequence[str], ours: Sequence[str], theirs: Sequence[str]) -> Sequence[str] | None:
    """Return what becomes of lines that one side or both changed; None if both did, and differently."""
    if ours in (theirs, base):
        return theirs
    if theirs == base:
        return ours
    # Adjacent lines, each changed by one side.
    if len(base) == len(ours) == len(theirs) and len(base) > 1:
        lines = [_choose([b], [o], [t]) for b, o, t in zip(base, ours, theirs, strict=True)]
        return None if None in lines else [line for each in lines for line in each or ()]
    return None


def _stable_regions(base: Sequence[str], ours: Sequence[str], theirs: Sequence[str]) -> Iterator[_Stable]:
    """Yield the regions that neither side changed, in order, and an empty one at the end."""
    in_ours, in_theirs = _matches(base, ours), _matches(base, theirs)
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


def _matches(base: Sequence[str], side: Sequence[str]) -> list[tuple[int, int, int]]:
    return [
        (at, there, size)
        for at, there, size in SequenceMatcher(None, base, side, autojunk=False).get_matching_blocks()
        if size
    ]


def lost_lines(
    base: str, ours: str, theirs: str, merged: str, *, normal: Callable[[str], str] = str.rstrip
) -> tuple[str, ...]:
    """Return the lines, each once, of which `merged` has fewer than a side has, although the other removed none.

    Lines are compared as `normal` returns them, wherever they are; empty ones do not count. It knows nothing of how the
    merge was made, so a merge that passes has lost nothing, and one that only moved lines passes, too.
    """
    was, mine, other, now = (_counted(text, normal) for text in (base, ours, theirs, merged))
    return tuple(line for line in mine | other if now[line] < _least(was[line], mine[line], other[line]))


def invented_lines(
    base: str, ours: str, theirs: str, merged: str, *, normal: Callable[[str], str] = str.rstrip
) -> tuple[str, ...]:
    """Return the lines, each once, of which `merged` has more than both sides together could have brought."""
    was, mine, other, now = (_counted(text, normal) for text in (base, ours, theirs, merged))
    return tuple(
        line
        for line in now
        if now[line] > max(was[line], mine[line], other[line], mine[line] + other[line] - was[line])
    )


def _counted(text: str, normal: Callable[[str], str]) -> Counter[str]:
    lines = Counter(normal(line) for line in text.split("\n"))
    del lines[""]
    return lines


def _least(base: int, ours: int, theirs: int) -> int:
    """Return how many of a line there must be: what each side has, without those that the other side removed."""
    removed_by_ours, removed_by_theirs = max(0, base - ours), max(0, base - theirs)
    return max(ours - removed_by_theirs, theirs - removed_by_ours, 0)
