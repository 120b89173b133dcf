"""Certify a merged file by comparing its units with those of its three versions, however it was made. Pure.

Each unit must occur as often as both changes together make it; a change that is the same on both sides counts once.
Each side, without what the other one removed, must appear in its order. `file_parts` says what the units are.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct

from scaffold.core.landing.conflict import FileVersions
from scaffold.core.printable_text import count_of
from scaffold.landing.conflicts.file_parts import UNORDERED, Parts, Unit, parts_of, without_number
from scaffold.landing.conflicts.go_merge import raised_alike
from scaffold.landing.conflicts.line_merge import matches
from scaffold.landing.conflicts.not_mergeable import NotMergeable

_WORD = re.compile(r"\w+|[^\w\s()\[\]{},:;.'\"`]+")


class _Change(Struct, frozen=True):
    """The units of a side that replace those from `start` to `end` of the base."""

    start: int
    end: int
    now: tuple[Unit, ...]


def require_complete(versions: FileVersions, merged: str, *, by_words: bool = False) -> None:
    """Raise NotMergeable if the merge lost, invented or reordered something.

    With `by_words`, a line that both sides changed may differ in the merge if it has the words of both.
    """
    sides = raised_alike(versions) if versions.path.rpartition("/")[2] == "go.mod" else versions
    base, ours, theirs, now = (parts_of(versions.path, text) for text in (sides.base, sides.ours, sides.theirs, merged))
    wrong = _Wrong()
    for place in dict.fromkeys([*base, *ours, *theirs, *now]):
        _compare_place(
            wrong, *(each.get(place, []) for each in (base, ours, theirs, now)), place=place, by_words=by_words
        )
    if by_words:
        _compare_words(wrong, base, ours, theirs, now)
    wrong.refuse("word" if by_words else "line")


def changed_scopes(versions: FileVersions, side: str) -> frozenset[str | None]:
    """Return the functions and classes in which a side differs from the base; None stands for code outside of them."""
    if not versions.path.endswith((".py", ".pyi")):
        return frozenset({None})
    was, now = (parts_of(versions.path, text) for text in (versions.base, side))
    return frozenset(without_number(place) or None for place in {**was, **now} if was.get(place) != now.get(place))


class _Wrong:
    def __init__(self) -> None:
        self.lost: list[str] = []
        self.invented: list[str] = []
        self.reordered: list[str] = []

    def refuse(self, what: str) -> None:
        for did, found in (("lost", self.lost), ("invented", self.invented)):
            if found:
                raise NotMergeable(
                    f"the merge would have {did} {count_of(len(found), what)}, e.g. {_quote_unit(found[0])}"
                )
        if self.reordered:
            raise NotMergeable(
                f"the merge would have changed the order of lines, e.g. of {_quote_unit(self.reordered[0])}"
            )


def _compare_place(
    wrong: _Wrong,
    base: Sequence[Unit],
    ours: Sequence[Unit],
    theirs: Sequence[Unit],
    now: Sequence[Unit],
    *,
    place: str,
    by_words: bool,
) -> None:
    mine, other = _side_changes(base, ours), _side_changes(base, theirs)
    if not by_words:
        there, known = Counter(now), {*base, *ours, *theirs}
        for unit, (least, most) in _wanted_counts(base, ours, theirs, mine, other).items():
            wrong.lost += [unit.text] * (there[unit] < least)
            wrong.invented += [unit.text] * (there[unit] > most)
        wrong.invented += [unit.text for unit in there if unit not in known]
    if place.startswith(UNORDERED):
        return
    for own, others in ((mine, other), (other, mine)):
        # Where both sides changed the same units in different ways, the merge may have other lines.
        free = [
            each
            for each in own
            if by_words and any(each != it and each.start < it.end and it.start < each.end for it in others)
        ]
        # `in` consumes the iterator, so each unit must follow those before it.
        rest = iter(now)
        missing = next((unit for unit in _kept_units(base, own, others, free) if unit not in rest), None)
        if missing is not None:
            wrong.reordered.append(missing.text)


def _side_changes(base: Sequence[Unit], side: Sequence[Unit]) -> list[_Change]:
    # A replacement by as many units is one change per unit, so that each is compared with the other side's.
    found: list[_Change] = []
    at_base = at_side = 0
    for start, there, size in [*matches(base, side), (len(base), len(side), 0)]:
        removed, added = start - at_base, there - at_side
        if removed == added:
            found += [_Change(at_base + at, at_base + at + 1, (side[at_side + at],)) for at in range(removed)]
        elif removed or added:
            found.append(_Change(at_base, start, tuple(side[at_side:there])))
        at_base, at_side = start + size, there + size
    return found


def _wanted_counts(
    base: Sequence[Unit],
    ours: Sequence[Unit],
    theirs: Sequence[Unit],
    mine_changes: Sequence[_Change],
    other_changes: Sequence[_Change],
) -> dict[Unit, tuple[int, int]]:
    """Return {unit: (least, most)}: how often each must occur in the merge."""
    was, mine, other = Counter(base), Counter(ours), Counter(theirs)
    twice: Counter[Unit] = Counter()
    for change in {*mine_changes} & {*other_changes}:
        twice.update(change.now)
        twice.subtract(base[change.start : change.end])
    # Both sides may add one entry to one place, beside others.
    either: Counter[Unit] = Counter()
    by_place = {(each.start, each.end): each for each in other_changes}
    for one in mine_changes:
        another = by_place.get((one.start, one.end))
        if another is not None and another != one:
            either += Counter(unit for unit in one.now if unit.entry) & Counter(another.now)
    wanted = {}
    for unit in {**was, **mine, **other}:
        both = mine[unit] + other[unit] - was[unit]
        exact = max(0, both - twice[unit])
        # An import or a key that both sides add is one thing.
        if unit.named and mine[unit] == other[unit]:
            exact = mine[unit]
        least = _least_count(was[unit], mine[unit], other[unit]) if unit.named else exact
        wanted[unit] = min(least, exact - either[unit]), exact
    return wanted


def _least_count(base: int, ours: int, theirs: int) -> int:
    return max(ours - max(0, base - theirs), theirs - max(0, base - ours), 0)


def _kept_units(
    base: Sequence[Unit], own: Sequence[_Change], others: Sequence[_Change], free: Sequence[_Change]
) -> Iterator[Unit]:
    """Yield the units of a side, except those that the other side removed or replaced, and except free changes."""
    gone = {at for change in others for at in range(change.start, change.end)}
    at = 0
    for change in [*own, _Change(len(base), len(base), ())]:
        yield from (base[here] for here in range(at, change.start) if here not in gone)
        if change not in free:
            yield from change.now
        at = change.end


def _compare_words(wrong: _Wrong, *versions: Parts) -> None:
    base, ours, theirs, now = (
        Counter((place, word) for place, units in each.items() for unit in units for word in _WORD.findall(unit.text))
        for each in versions
    )
    for word in {**base, **ours, **theirs, **now}:
        least = _least_count(base[word], ours[word], theirs[word])
        most = max(ours[word], theirs[word], ours[word] + theirs[word] - base[word])
        wrong.lost += [word[1]] * (now[word] < least)
        wrong.invented += [word[1]] * (now[word] > most)


def _quote_unit(unit: str) -> str:
    return repr(without_number(unit).strip()[:80])
