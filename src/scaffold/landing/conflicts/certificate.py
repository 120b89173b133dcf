"""Certify a merge of a file by what its versions consist of, without knowing how it was made. Pure.

What both sides have, and what one side added or removed, must be in the merge as often as both changes together make
it. Only a change that is the same on both sides counts once. Each side, without what the other one removed, must be
there in its order. See `parts` for what is counted.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from scaffold.core.landing.conflict import FileVersions
from scaffold.core.printable_text import count_of
from scaffold.landing.conflicts.file_parts import UNORDERED, Parts, Unit, parts_of, without_number
from scaffold.landing.conflicts.go_merge import raised_alike
from scaffold.landing.conflicts.line_merge import matches
from scaffold.landing.conflicts.not_mergeable import NotMergeable

_WORD = re.compile(r"\w+|[^\w\s()\[\]{},:;.'\"`]+")


class _Change(Struct, frozen=True):
    """What a side has in the place of the units from `start` to `end` of the base."""

    start: int
    end: int
    now: tuple[Unit, ...]


def require_complete(versions: FileVersions, merged: str, *, by_words: bool = False) -> None:
    """Raise NotMergeable if the merge lost, invented or reordered something.

    `by_words`: a line that both sides changed may be another one in the merge, if that has the words of both.
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
    """Return the functions and classes in which a side differs from the base; None among them for anything else."""
    if not versions.path.endswith((".py", ".pyi")):
        return frozenset({None})
    was, now = (parts_of(versions.path, text) for text in (versions.base, side))
    return frozenset(without_number(place) or None for place in {**was, **now} if was.get(place) != now.get(place))


class _Wrong:
    """What a merge lost, invented and reordered."""

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
        for unit, (least, most) in _wanted_counts(base, ours, theirs, {*mine} & {*other}).items():
            wrong.lost += [unit.text] * (there[unit] < least)
            wrong.invented += [unit.text] * (there[unit] > most)
        wrong.invented += [unit.text for unit in there if unit not in known]
    if place.startswith(UNORDERED):
        return
    for own, others in ((mine, other), (other, mine)):
        free = [each for each in own if by_words and any(_is_overlap(each, another) for another in others)]
        kept = _kept_units(base, own, others, free)
        if (missing := _first_missing(kept, now)) is not None:
            wrong.reordered.append(missing.text)


def _side_changes(base: Sequence[Unit], side: Sequence[Unit]) -> list[_Change]:
    """Return the changes of a side, in order; a replacement by as many units is one change for each."""
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
    base: Sequence[Unit], ours: Sequence[Unit], theirs: Sequence[Unit], alike: Iterable[_Change]
) -> dict[Unit, tuple[int, int]]:
    """Return how often each unit must be there at least and at most."""
    was, mine, other = Counter(base), Counter(ours), Counter(theirs)
    twice: Counter[Unit] = Counter()
    for change in alike:
        twice.update(change.now)
        twice.subtract(base[change.start : change.end])
    wanted = {}
    for unit in {**was, **mine, **other}:
        both = mine[unit] + other[unit] - was[unit]
        exact = max(0, both - twice[unit])
        if unit.named and mine[unit] == other[unit]:
            exact = mine[unit]
        least = _least_count(was[unit], mine[unit], other[unit]) if unit.named else exact
        wanted[unit] = min(least, exact), exact
    return wanted


def _least_count(base: int, ours: int, theirs: int) -> int:
    """Return how many there must be of what is one thing if both sides add it."""
    return max(ours - max(0, base - theirs), theirs - max(0, base - ours), 0)


def _is_overlap(one: _Change, other: _Change) -> bool:
    """Return whether two different changes are of the same units."""
    return one != other and one.start < other.end and other.start < one.end


def _kept_units(
    base: Sequence[Unit], own: Sequence[_Change], others: Sequence[_Change], free: Sequence[_Change]
) -> Iterator[Unit]:
    """Yield the units of a side without those that the other side removed or replaced, and without free changes."""
    gone = {at for change in others for at in range(change.start, change.end)}
    at = 0
    for change in [*own, _Change(len(base), len(base), ())]:
        yield from (base[here] for here in range(at, change.start) if here not in gone)
        if change not in free:
            yield from change.now
        at = change.end


def _first_missing(units: Iterable[Unit], now: Sequence[Unit]) -> Unit | None:
    """Return the first unit that is not behind those before it; None if all are there in their order."""
    left = iter(now)
    return next((unit for unit in units if unit not in left), None)


def _compare_words(wrong: _Wrong, *versions: Parts) -> None:
    base, ours, theirs, now = (Counter(_placed_words(each)) for each in versions)
    for word in {**base, **ours, **theirs, **now}:
        least = _least_count(base[word], ours[word], theirs[word])
        most = max(ours[word], theirs[word], ours[word] + theirs[word] - base[word])
        wrong.lost += [word[1]] * (now[word] < least)
        wrong.invented += [word[1]] * (now[word] > most)


def _placed_words(parts: Parts) -> Iterator[tuple[str, str]]:
    for place, units in parts.items():
        yield from ((place, word) for unit in units for word in _WORD.findall(unit.text))


def _quote_unit(unit: str) -> str:
    return repr(without_number(unit).strip()[:80])
