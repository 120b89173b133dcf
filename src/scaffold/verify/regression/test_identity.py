"""Match the tests of two runs by name, and by position where names do not identify them.

Equal names of one file are numbered in their order. Names that change from run to run, as they contain times, addresses
or ids, are recognised by comparing two runs of the same commit; all of one shape then count as equal names.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from msgspec import Struct, structs

from scaffold.core.printable_text import count_of, join_limited
from scaffold.core.proof.gates import GateRun
from scaffold.verify.gates.reports.runner_result import distinct_names
from scaffold.verify.regression.comparison import FAILING_OUTCOMES, new_failures, with_new_names

VARIES = "…"
"""Stands in a shape for a word with digits."""
ANYTHING = VARIES * 2
"""Stands in a shape for any words."""
MAX_NAMED = 3
_VARYING_WORD = re.compile(r"\w*\d\w*")
_NUMBER = re.compile(r" \(\d+\)$")
_WORDS = re.compile(r"\w+|\W")
_PLACE = re.compile(r".*?(?:\[| > |\.(?:Test|Example|Fuzz|Benchmark)\w*/)")
"""The file or function before the titles, the case or the subtests."""


class VaryingNames(Struct, frozen=True):
    """What two runs of one commit show about the names of its tests."""

    stable: frozenset[str] = frozenset()
    """The names of both runs."""
    shapes: tuple[str, ...] = ()
    """What stays of the other names."""
    unordered: frozenset[str] = frozenset()
    """Equal names whose number, or the order of whose outcomes, differs between the runs."""

    def canonical(self, run: GateRun) -> GateRun:
        """Return the run with the shapes of varying names in their place, numbered in their order."""
        if not self.shapes:
            return run
        names = [
            name if name in self.stable else next((shape for shape in self.shapes if has_shape(name, shape)), name)
            for name in run.outcomes
        ]
        renamed = dict(zip(run.outcomes, distinct_names(names), strict=True))
        return with_new_names(run, lambda name: renamed.get(name, name))


class MatchedRuns(Struct, frozen=True):
    """A run before the work and one after it, in which a name stands for the same test."""

    before: GateRun
    now: GateRun
    varying: VaryingNames
    order: Mapping[str, str]
    """The new names of equal ones before the work, where there are more or fewer of them now."""

    def same_tests(self, run: GateRun) -> GateRun:
        """Return another run of the tests before the work with the names that they have in `before`."""
        return with_new_names(self.varying.canonical(run), lambda name: self.order.get(name, name))

    def before_mended(self, laid: GateRun) -> GateRun:
        """Return the run before the work without failures that equal names of now must not stand for.

        `laid` are the same tests on the code of the work: those that pass there were mended.
        """
        mended = {
            name for name in self.order.values() if _fails_in(self.before, {name}) and not _fails_in(laid, {name})
        }
        return structs.replace(self.before, outcomes={**self.before.outcomes, **dict.fromkeys(mended, "passed")})


def may_be_misnamed(before: GateRun, now: GateRun, expected: Callable[[str], bool]) -> bool:
    """Return True if a new or changed name could be one of a test before the work, of those `expected` to run."""
    new = now.outcomes.keys() - before.outcomes.keys()
    if new and any(name not in now.outcomes and expected(name) for name in before.outcomes):
        return True
    twins = {name for names in _equal_names(before).values() if _fails_in(before, names) for name in names}
    return not twins.isdisjoint(new_failures(before, now))


def varying_names(first: GateRun, second: GateRun) -> VaryingNames:
    """Return what changes between two runs of the same commit; nothing if one of them has no result."""
    if first.problem or second.problem:
        return VaryingNames()
    gone = [name for name in first.outcomes if name not in second.outcomes]
    new = [name for name in second.outcomes if name not in first.outcomes]
    stable = frozenset(first.outcomes.keys() & second.outcomes.keys())
    names = VaryingNames(stable=stable, shapes=tuple(dict.fromkeys(_shapes_of_pairs(gone, new))))
    one, other = names.canonical(first), names.canonical(second)
    twins = _equal_names(other)
    unordered = (
        name
        for name, each in _equal_names(one).items()
        if len(each) != len(twins.get(name, ()))
        or any(_fails_in(one, {twin}) != _fails_in(other, {twin}) for twin in each)
    )
    return VaryingNames(stable=names.stable, shapes=names.shapes, unordered=frozenset(unordered))


def matched_runs(before: GateRun, now: GateRun, varying: VaryingNames) -> MatchedRuns:
    """Match equal names by position, if there are as many as before; else a failure is old if as many failed then."""
    one, other = varying.canonical(before), varying.canonical(now)
    twins, later = _equal_names(one), _equal_names(other)
    order, moved, surplus = dict[str, str](), dict[str, str](), set[str]()
    for name in twins.keys() | later.keys():
        left, right = (each.get(name, [name]) for each in (twins, later))
        if name in other.outcomes and (name in varying.unordered or len(left) != len(right)):
            names = max(left, right, key=len)
            order |= _by_outcome(one, left, names)
            moved |= (now_named := _by_outcome(other, right, names))
            if name in varying.unordered:
                # Their number says nothing either.
                surplus |= {order[each] for each in left} - {*now_named.values()}
    matched = with_new_names(one, lambda name: order.get(name, name))
    kept = {name: outcome for name, outcome in matched.outcomes.items() if name not in surplus}
    return MatchedRuns(
        before=structs.replace(matched, outcomes=kept),
        now=with_new_names(other, lambda name: moved.get(name, name)),
        varying=varying,
        order=order,
    )


def has_shape(name: str, shape: str) -> bool:
    """Return True if a name has this shape."""
    kept = _without_varying_words(name)
    head, is_open, tail = shape.partition(ANYTHING)
    return kept.startswith(head) and kept.endswith(tail) and len(kept) > len(head + tail) if is_open else kept == shape


def describe_varying(shapes: Sequence[str]) -> str:
    """Return the note about tests whose names change from run to run."""
    verb = "changes" if len(shapes) == 1 else "change"
    what = f"{count_of(len(shapes), 'name')} of tests {verb} from run to run; matched by position"
    return f"{what}: {join_limited(shapes, MAX_NAMED)}"


def _shapes_of_pairs(gone: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    """Yield the shape of each name that is gone and of the new name in its position."""
    for key in (_without_varying_words, _fixed_place):
        left, right = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
        for name in gone:
            left[key(name)].append(name)
        for name in new:
            right[key(name)].append(name)
        # Words alone do not tell which name is which if there are more or fewer of them.
        paired = {
            each for each in left if (right[each] if key is not _fixed_place else len(left[each]) == len(right[each]))
        }
        for each in paired:
            yield from (_common_shape(one, other) for one, other in zip(left[each], right[each], strict=False))
        gone = [name for name in gone if key(name) not in paired]
        new = [name for name in new if key(name) not in paired]


def _common_shape(one: str, other: str) -> str:
    first, second = _WORDS.findall(_without_varying_words(one)), _WORDS.findall(_without_varying_words(other))
    if first == second:
        return "".join(first)
    shorter = min(len(first), len(second))
    head = next((at for at in range(shorter) if first[at] != second[at]), shorter)
    rest = shorter - head
    tail = next((at for at in range(rest) if first[-1 - at] != second[-1 - at]), rest)
    return "".join([*first[:head], ANYTHING, *first[len(first) - tail :]])


def _without_varying_words(name: str) -> str:
    place = _fixed_place(name)
    return place + _VARYING_WORD.sub(VARIES, name[len(place) :])


def _fixed_place(name: str) -> str:
    found = _PLACE.match(name)
    return found[0] if found else ""


def _equal_names(run: GateRun) -> dict[str, list[str]]:
    """Return the names that are equal but for their number, in order, by the first of them."""
    found = defaultdict[str, list[str]](list)
    for name in run.outcomes:
        plain = _NUMBER.sub("", name)
        found[plain if plain in run.outcomes else name].append(name)
    return {name: each for name, each in found.items() if len(each) > 1}


def _fails_in(run: GateRun, names: Collection[str]) -> bool:
    return any(run.outcomes.get(name) in FAILING_OUTCOMES for name in names)


def _by_outcome(run: GateRun, group: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """Return new names for equal names: failures get the first of `names`, others the last."""
    failed = [name for name in group if _fails_in(run, {name})]
    others = [name for name in group if name not in failed]
    return dict([*zip(failed, names, strict=False), *zip(others, names[len(names) - len(others) :], strict=True)])
