"""Three-way merge of lines, and of the keys and lists of manifests in any format. Pure."""

import re
from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import TypeVar

from msgspec import Struct

from scaffold.landing.conflicts.not_mergeable import NotMergeable

Line = TypeVar("Line", bound=Hashable)
MAX_PAIRS = 2_000_000
"""The limit for pairs of equal lines in the differing part of two versions: some seconds of work."""
Key = TypeVar("Key", bound=Hashable)
_HEADING = re.compile(r"(#{1,6})\s+\S")
_UNDERLINE = re.compile(r"(=|-)\1{2,}\s*$")
"""Headings of Markdown, and of most texts for people."""
SETS = re.compile(
    r"(project\.(dependencies|keywords|classifiers|optional-dependencies\..+)|build-system\.requires"
    r"|dependency-groups\..+|package\.(keywords|categories)|features\..+|keywords)"
)
"""The lists in manifests whose order has no meaning according to their formats."""


def merge_union(base: str, ours: str, theirs: str) -> str:
    """Return the text with the lines of both sides where both added some, ours first; each line ends in a newline.

    Empty lines that both sides add at the beginning or the end of a place are merged.
    """
    merged: list[str] = []
    versions = [[f"{line}\n" for line in text.split("\n")[:-1]] for text in (base, ours, theirs)]
    for was, mine, other in merge_regions(*versions):
        chosen = choose_lines(was, mine, other)
        merged += _union_region(was, mine, other) if chosen is None else chosen
    return "".join(merged)


def merge_items(base: str, ours: str, theirs: str) -> str:
    """Return a text in which one side removes items of a list, e.g. `- one`, next to those that the other adds.

    Raises NotMergeable if both sides add in one place, or what one side removes is more than whole items.
    """
    merged: list[str] = []
    versions = [[f"{line}\n" for line in text.split("\n")[:-1]] for text in (base, ours, theirs)]
    for was, mine, other in merge_regions(*versions):
        chosen = choose_lines(was, mine, other)
        if chosen is None:
            added = _without_removed(was, mine, other) if was else None
            marks = {_mark_of_items(lines) for lines in (was, *(added or ())) if lines}
            if added is None or len(marks) > 1 or None in marks:
                raise NotMergeable("no merge is known for this kind of file")
            chosen = [line for lines in added for line in lines]
        merged += chosen
    return "".join(merged)


def _mark_of_items(lines: Sequence[str]) -> str | None:
    """Return what each of whole items begins with, e.g. `- ` at their depth; None if lines are anything else."""
    found = re.match(r"( *[-*+] )\S", lines[0])
    mark = found[1] if found else ""
    deeper = re.compile(r" {" + str(len(mark)) + r"}\s*\S")
    return mark if found and all(line.startswith(mark) or deeper.match(line) for line in lines) else None


def _without_removed(
    was: Sequence[str], mine: Sequence[str], other: Sequence[str]
) -> tuple[Sequence[str], Sequence[str]] | None:
    """Return what one side adds before and after lines that the other removes; None if more than that was changed."""
    for kept, left in ((mine, other), (other, mine)):
        at = next((at for at in range(len(kept) - len(was) + 1) if kept[at : at + len(was)] == was), None)
        if at is not None and not left:
            return kept[:at], kept[at + len(was) :]
    return None


def _union_region(was: Sequence[str], mine: Sequence[str], other: Sequence[str]) -> Sequence[str]:
    if any(line.strip() and (line in mine or line in other) for line in was):
        added = _without_removed(was, mine, other)
        if added is None:
            raise NotMergeable("both sides change existing lines, and a union only covers added lines")
        return [*added[0], *added[1]]
    return _union_sections(mine, other) or _one_after_other(mine, other)


def _union_sections(mine: Sequence[str], other: Sequence[str]) -> Sequence[str] | None:
    """Return what both sides add, with a heading that both add once; None if they add none of the same text."""
    ours, theirs = _sections(mine), _sections(other)
    if ours is None or theirs is None or not (ours.keys() & theirs.keys()) - {()}:
        return None
    merged: list[str] = []
    for path in merged_keys((), tuple(ours), tuple(theirs)):
        if path and merged and merged[-1].strip() and "\n" in (*mine, *other):
            merged.append("\n")
        own, others = ours.get(path, []), theirs.get(path, [])
        start = _empty_at_start(own, others)
        merged += [*path[-1:], *own[:start], *_one_after_other(own[start:], others[start:])]
    return merged


def _sections(lines: Sequence[str]) -> dict[tuple[str, ...], list[str]] | None:
    """Return the lines below each heading, by its text behind those above it; None if one is repeated."""
    path: list[tuple[int, str]] = []
    sections: dict[tuple[str, ...], list[str]] = {(): []}
    above, below = ("", *lines), (*lines[1:], "")
    for before, line, after in zip(above, lines, below, strict=False):
        level = heading_level(line, after)
        if not level:
            if not is_underline(line, before):
                sections[tuple(text for _, text in path)].append(line)
            continue
        text = line if _HEADING.match(line) else line + after
        path = [*((higher, text) for higher, text in path if higher < level), (level, text)]
        key = tuple(text for _, text in path)
        if key in sections:
            return None
        sections[key] = []
    return sections


def heading_level(line: str, below: str) -> int:
    """Return the level of the heading that a line is by itself or by the line below it; 0 if it is none."""
    if marked := _HEADING.match(line):
        return len(marked[1])
    return (1 if below[0] == "=" else 2) if is_underline(below, line) else 0


def is_underline(line: str, above: str) -> bool:
    """Return whether a line makes the one above it a heading."""
    begins = (_UNDERLINE.match(above), _HEADING.match(above))
    return bool(_UNDERLINE.match(line) and above.strip() and not any(begins))


def _one_after_other(mine: Sequence[str], other: Sequence[str]) -> Sequence[str]:
    start = _empty_at_start(mine, other)
    end = _empty_at_start(mine[start:][::-1], other[start:][::-1])
    first, second = mine[: len(mine) - end], other[start:]
    # Where an empty line ends each paragraph, it also ends the first of the two.
    ends = mine[len(mine) - end :]
    return [*first, *(ends[:1] if "\n" in [*first, *second[: len(second) - end]] else ()), *second]


class _Stable(Struct, frozen=True):
    """Lines that are equal in all versions: their start in each, and their number."""

    base: int
    ours: int
    theirs: int
    size: int


def merge_lines(base: Sequence[Line], ours: Sequence[Line], theirs: Sequence[Line]) -> tuple[Line, ...] | None:
    """Return the lines with the changes of both sides; None if these change the same lines differently."""
    merged: list[Line] = []
    for was, mine, other in merge_regions(base, ours, theirs):
        chosen = choose_lines(was, mine, other)
        if chosen is None:
            return None
        merged += chosen
    return tuple(merged)


def merge_regions(
    base: Sequence[Line], ours: Sequence[Line], theirs: Sequence[Line]
) -> Iterator[tuple[Sequence[Line], Sequence[Line], Sequence[Line]]]:
    """Yield (base, ours, theirs) of each region in order, of the changed and the unchanged ones."""
    at = _Stable(0, 0, 0, 0)
    for stable in _stable_regions(base, ours, theirs):
        yield base[at.base : stable.base], ours[at.ours : stable.ours], theirs[at.theirs : stable.theirs]
        same = base[stable.base : stable.base + stable.size]
        yield same, same, same
        at = _Stable(stable.base + stable.size, stable.ours + stable.size, stable.theirs + stable.size, 0)


def choose_lines(base: Sequence[Line], ours: Sequence[Line], theirs: Sequence[Line]) -> Sequence[Line] | None:
    """Return the merged lines of a region; None if both sides changed it differently."""
    if ours in (theirs, base):
        return theirs
    if theirs == base:
        return ours
    # Neighbouring lines may each be changed by another side.
    if len(base) == len(ours) == len(theirs) and len(base) > 1:
        lines = [choose_lines([b], [o], [t]) for b, o, t in zip(base, ours, theirs, strict=True)]
        return None if None in lines else [line for each in lines for line in each or ()]
    return None


def _stable_regions(base: Sequence[Line], ours: Sequence[Line], theirs: Sequence[Line]) -> Iterator[_Stable]:
    """Yield the regions that neither side changed, in order, then an empty one at the end."""
    in_ours, in_theirs = matches(base, ours), matches(base, theirs)
    left = right = 0
    while left < len(in_ours) and right < len(in_theirs):
        (at_a, ours_at, size_a), (at_b, theirs_at, size_b) = in_ours[left], in_theirs[right]
        start, end = max(at_a, at_b), min(at_a + size_a, at_b + size_b)
        if start < end:
            yield _Stable(start, ours_at + start - at_a, theirs_at + start - at_b, end - start)
        # The one that ends first cannot overlap any later one of the other side.
        if at_a + size_a < at_b + size_b:
            left += 1
        else:
            right += 1
    yield _Stable(len(base), len(ours), len(theirs), 0)


def matches(base: Sequence[Line], side: Sequence[Line]) -> list[tuple[int, int, int]]:
    """Return the runs of equal lines or units, each as (start in base, start in side, length)."""
    start = _same_at_start(base, side)
    end = _same_at_start(base[start:][::-1], side[start:][::-1])
    # Comparing takes quadratic time, so the equal lines at both ends are taken off first.
    inner = base[start : len(base) - end], side[start : len(side) - end]
    alike = Counter(inner[1])
    if sum(alike[line] for line in inner[0]) > MAX_PAIRS:
        raise NotMergeable("too many of its lines are equal")
    found = SequenceMatcher(None, *inner, autojunk=False).get_matching_blocks()
    between = [(start + at, start + there, size) for at, there, size in found]
    runs = [(0, 0, start), *between, (len(base) - end, len(side) - end, end)]
    return _slid(base, side, [run for run in runs if run[2]])


def _slid(base: Sequence[Line], side: Sequence[Line], runs: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    # Lines between equal ones fit in several places. In the last of them, what both sides add is seen to be the same.
    for at in range(1, len(runs)):
        (first, there, size), (start, side_start, rest) = runs[at - 1], runs[at]
        if (first + size == start) != (there + size == side_start):
            longer, here, end = (side, there, side_start) if first + size == start else (base, first, start)
            # A run is kept where something else follows that must not become part of the same change.
            most = rest - ((start + rest, side_start + rest) != (len(base), len(side)))
            by = _same_at_start(longer[here + size : end + most], longer[end : end + most])
            runs[at - 1 : at + 1] = [(first, there, size + by), (start + by, side_start + by, rest - by)]
    return [run for run in runs if run[2]]


def _empty_at_start(one: Sequence[str], other: Sequence[str]) -> int:
    # Only empty lines: any other line belongs to the text next to it.
    same = _same_at_start(one, other)
    return next((at for at, line in enumerate(one[:same]) if line.strip()), same)


def _same_at_start(one: Sequence[Line], other: Sequence[Line]) -> int:
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def merged_keys(base: Sequence[Key], ours: Sequence[Key], theirs: Sequence[Key]) -> list[Key]:
    """Return the keys of both sides except those that one of them removed; raise NotMergeable for a duplicate key.

    Sorted if both sides are sorted, else in the order of ours, each key of theirs after its predecessor there, and
    after those that ours added in the same place.
    """
    for version in (base, ours, theirs):
        if len(set(version)) < len(version):
            raise NotMergeable("an entry occurs twice")
    was, mine, other = set(base), set(ours), set(theirs)
    removed = {key for key in base if key not in mine or key not in other}
    behind: dict[Key | None, list[Key]] = {None: []}
    previous: Key | None = None
    for key in theirs:
        if key in mine and key not in removed:
            previous = key
        elif key not in mine and key not in was:
            behind.setdefault(previous, []).append(key)
    merged: list[Key] = []
    for place, own in by_place([key for key in ours if key not in removed], other):
        merged += [*([] if place is None else [place]), *own, *behind.get(place, ())]
    # Sorted as both sides are, if they show an order.
    if min(len(ours), len(theirs)) > 1 and all(isinstance(key, str) for key in merged):
        orders: Sequence[Callable[[str], str]] = (str, str.lower)
        for order in orders:
            if all(list(side) == sorted(side, key=lambda key: order(str(key))) for side in (ours, theirs)):
                return sorted(merged, key=lambda key: order(str(key)))
    return merged


def by_place(order: Sequence[Key], both: Container[Key]) -> Iterator[tuple[Key | None, list[Key]]]:
    """Yield each key that both sides have, with the keys after it up to the next; first, None with those before all."""
    place: Key | None = None
    own: list[Key] = []
    for key in order:
        if key in both:
            yield place, own
            place, own = key, []
        else:
            own.append(key)
    yield place, own


def merged_items(place: str, base: Sequence[str], ours: Sequence[str], theirs: Sequence[str]) -> list[str]:
    """Return the entries of the list at a place, e.g. `project.dependencies`, with the changes of both sides.

    Raises NotMergeable if both sides change one place of a list whose order may matter, or entries of the same name,
    e.g. two requirements of one package.
    """
    if SETS.fullmatch(place):
        for name in {name_of(entry) for entry in (*base, *ours, *theirs)}:
            was, mine, other = ([each for each in side if name_of(each) == name] for side in (base, ours, theirs))
            if mine != was != other != mine:
                raise NotMergeable(f"both sides add an entry for {name}, or change it")
    by_place = merge_lines(base, ours, theirs)
    if by_place is not None:
        return list(by_place)
    if not SETS.fullmatch(place):
        raise NotMergeable(f"both sides change the same place of the list {place}")
    if set(base) - set(ours) - set(theirs):
        raise NotMergeable("both sides replace entries of a list")
    if (set(ours) & set(theirs)) - set(base):
        raise NotMergeable("both sides add one entry to a list, and others beside it")
    # Tools sort such lists, so both sides may have added entries at the same place.
    return merged_keys(base, ours, theirs)


def name_of(entry: str) -> str:
    """Return the normalized name that an entry begins with, e.g. a package name; the whole entry if there is none."""
    found = re.match(r"[\"']?@?[\w./-]*\w", entry)
    return re.sub(r"[-_.]+", "-", found[0]).lower() if found else entry
